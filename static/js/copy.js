// What is shared is copied with one click; without a clipboard the link leads there.
for (const link of document.querySelectorAll("[data-copy]")) {
  link.hidden = false;
  link.addEventListener("click", async (event) => {
    if (!navigator.clipboard) return;
    event.preventDefault();
    await navigator.clipboard.writeText(link.dataset.copy || location.href);
    const said = link.parentElement.querySelector("[data-copied]");
    if (said) said.textContent = "Copied.";
  });
}
