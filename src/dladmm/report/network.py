"""A network as a small drawing: a bar for each layer, as tall as it is wide."""

import math
from collections.abc import Sequence
from html import escape

BAR, GAP, HEIGHT = 26, 84, 120


def network_svg(sizes: Sequence[int], activations: Sequence[str], loss: str) -> str:
    """The layers from inputs to outputs as SVG, heights by the logarithm of their units."""
    most = math.log2(max(sizes) + 1)
    labels = [*activations, loss]
    parts = []
    for k, size in enumerate(sizes):
        height = max(10.0, HEIGHT * math.log2(size + 1) / most)
        x, y = 30 + k * (BAR + GAP), 24 + (HEIGHT - height) / 2
        parts.append(
            f'<rect x="{x}" y="{y:.0f}" width="{BAR}" height="{height:.0f}" rx="4" fill="#2a6fbb"'
            f' fill-opacity="{0.35 if k in (0, len(sizes) - 1) else 0.75}"/>'
            f'<text x="{x + BAR / 2}" y="14" text-anchor="middle">{size:,}</text>'
        )
        if k:
            before, middle = x - GAP, 24 + HEIGHT / 2
            parts.append(
                f'<path d="M{before + 4} {middle}h{GAP - 10}l-5 -4m5 4l-5 4" fill="none"'
                ' stroke="currentColor" stroke-opacity=".55"/>'
                f'<text x="{before + GAP / 2}" y="{middle - 8}" text-anchor="middle">'
                f"{escape(labels[k - 1][:14])}</text>"
            )
    width = 60 + len(sizes) * BAR + (len(sizes) - 1) * GAP
    words = escape(f"Network {'-'.join(map(str, sizes))}, {', '.join(labels)}", quote=True)
    return (
        f'<svg role="img" aria-label="{words}" viewBox="0 0 {width} {HEIGHT + 34}" width="{width}"'
        ' style="max-width:100%;font:12px system-ui,sans-serif;fill:currentColor">'
        f"<title>{words}</title>{''.join(parts)}</svg>"
    )
