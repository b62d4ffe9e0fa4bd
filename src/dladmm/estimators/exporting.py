"""How an estimator leaves its process: drawn in a notebook, pickled, saved, exported, reported."""

import warnings
from collections.abc import Sequence
from html import escape
from typing import Any, Self

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dladmm._version import __version__
from dladmm.core.problem import sizes_of
from dladmm.estimators.samples import as_rows
from dladmm.report.network import network_svg
from dladmm.terms.activations import activations
from dladmm.terms.losses import losses


class Exporting(BaseEstimator):
    """What can be done with an estimator besides fitting and predicting."""

    def _repr_html_inner(self) -> str:
        """scikit-learn's page of the parameters, and of a fitted network its layers below."""
        return str(super()._repr_html_inner()) + self._drawn_network()

    def _repr_mimebundle_(self, **given: Any) -> Any:
        bundle = super()._repr_mimebundle_(**given)
        if "text/html" in bundle:
            bundle["text/html"] += self._drawn_network()
        return bundle

    def _drawn_network(self) -> str:
        """The network and how its fit ended; nothing before a fit."""
        if not hasattr(self, "coefs_"):
            return ""
        problem = self._problem_of(self.layers_)
        names = [activations.name_of(one) or type(one).__name__ for one in problem.activations]
        loss = losses.name_of(problem.loss) or type(problem.loss).__name__
        drawing = network_svg(sizes_of(self.layers_), names, loss)
        ended = f"{self.n_iter_} iterations, loss {self.loss_:.4g}: {self.message_}"
        return f'<div style="margin-top:.5em">{drawing}<div>{escape(ended)}</div></div>'

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_dladmm_version": __version__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """From a pickle, which is of one version only; one of another is used with a warning."""
        written = state.get("_dladmm_version", "0.1 or 0.2.0.dev0")
        if written != __version__:
            warnings.warn(
                f"this {type(self).__name__} was pickled by dladmm {written}, and this is dladmm"
                f" {__version__}: it may fail or predict otherwise; `save` and `load` keep models"
                " for later versions",
                stacklevel=2,
            )
        super().__setstate__({k: v for k, v in state.items() if k != "_dladmm_version"})

    def save(self, path: Any) -> None:
        """Write this model to one safetensors file, whole or not at all.

        Parameters
        ----------
        path : str or path
            Where to write it; an older file there is replaced at the end.
        """
        from dladmm.estimators.model_files import save_model  # which imports the estimators

        save_model(path, self)

    @classmethod
    def load(cls, path: Any) -> Self:
        """The model in a file; ModelFileError if it is damaged, foreign, newer or another kind.

        Parameters
        ----------
        path : str or path
            A file that `save` or `dladmm fit` wrote.

        Returns
        -------
        estimator
            The fitted estimator.
        """
        from dladmm.estimators.model_files import load_estimator

        return load_estimator(path, cls)

    def to_torch(self, dtype: Any = None) -> Any:
        """The network as a PyTorch module; needs the extra `torch`.

        Parameters
        ----------
        dtype : torch.dtype or None
            Of its weights; theirs by default.

        Returns
        -------
        torch.nn.Sequential
            It returns what predict_proba, or predict, returns.
        """
        from dladmm.export.torch_modules import to_torch  # PyTorch is an extra

        return to_torch(self, dtype)

    def to_onnx(self, path: Any, preprocessing: Any = None, *, dtype: str = "float64") -> list[str]:
        """Write the network as an ONNX file; needs the extra `onnx`.

        Parameters
        ----------
        path : str or path
            Where to write it.
        preprocessing : mapping or None
            What the command line learned about a table: the file then takes its raw columns.
        dtype : "float64" or "float32"
            What the file computes in.

        Returns
        -------
        list of str
            What ONNX cannot do, in sentences.
        """
        from dladmm.export.onnx import to_onnx  # onnx is an extra

        return to_onnx(self, path, preprocessing, dtype=dtype)

    def report(
        self,
        X: Any,
        y: Any,
        *,
        names: Sequence[str] | None = None,
        image_shape: tuple[int, int] | None = None,
        title: str = "",
    ) -> Any:
        """A page about this network on rows it was not trained on; needs the extra `compare`.

        Scores beside a baseline, curves, confusion matrix or residuals, calibration, importance of
        the columns, the worst mistakes, and the certificate in plain words.

        Parameters
        ----------
        X : array or sparse matrix, rows times columns
            Rows that were not trained on.
        y : array
            What is to be predicted there.
        names : sequence of str or None
            Of the columns; those of a frame by default.
        image_shape : tuple or None
            Height and width, where a row is a grey picture: the worst mistakes are then shown.
        title : str
            Of the page.

        Returns
        -------
        Report
            `html` is the page, `save(path)` writes it; a notebook shows it.
        """
        from dladmm.report.model_report import report  # plotly is an extra

        check_is_fitted(self)
        X = as_rows(self.network, X)
        return report(self, X, y, names=names, image_shape=image_shape, title=title)
