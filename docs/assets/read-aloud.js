// What the theme leaves out for who has a page read aloud: its icons say nothing, and the buttons of a
// block of code are no landmark. Some of them are made late.
const mark = () => {
  for (const icon of document.querySelectorAll("svg:not([aria-hidden])"))
    icon.setAttribute("aria-hidden", "true");
  for (const buttons of document.querySelectorAll(".md-code__nav:not([role])")) {
    buttons.setAttribute("role", "group");
    buttons.setAttribute("aria-label", "Code");
  }
};
new MutationObserver(mark).observe(document.body, { childList: true, subtree: true });
mark();
