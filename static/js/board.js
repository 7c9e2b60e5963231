// Small conveniences; the page works without them.

// A choice made with the pointer applies at once. On the keyboard each arrow key is a change,
// so keyboard users press the button.
const filters = document.getElementById("filters");
let pointer = false;
filters?.addEventListener("pointerdown", () => { pointer = true; });
filters?.addEventListener("keydown", () => { pointer = false; });
filters?.addEventListener("change", ({ target }) => {
  if (pointer && target.matches("select")) filters.requestSubmit();
});

// After "back", a browser may restore the form with a choice that does not match the table.
window.addEventListener("pageshow", ({ persisted }) => { if (persisted) filters?.reset(); });

// The button shows how many models it would compare.
const button = document.getElementById("compare-button");
const ticks = [...document.querySelectorAll('input[form="compare"][type="checkbox"]')];
function count() {
  const chosen = ticks.filter((tick) => tick.checked).length;
  button.disabled = chosen < 2;
  button.textContent = chosen < 2 ? "Tick two models to compare them" : `Compare ${chosen} models`;
}
if (button) {
  for (const tick of ticks) tick.addEventListener("change", count);
  count();
}

// New rows appear while runs are under way.
if (document.querySelector(".under-way")) {
  setTimeout(() => { if (!document.hidden) location.reload(); }, 15000);
}
