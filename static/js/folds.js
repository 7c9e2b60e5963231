// A link to a folded section unfolds the section.
function reveal() {
  const target = document.getElementById(location.hash.slice(1));
  for (let fold = target?.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  target?.scrollIntoView();
}
addEventListener("hashchange", reveal);
if (location.hash) reveal();
// Clicking the link of the current section again does not change the hash.
document.getElementById("contents")?.addEventListener("click", () => setTimeout(reveal));
