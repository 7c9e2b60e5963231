// Copies an address or a text with one click. If the browser has no clipboard, the link opens.
for (const link of document.querySelectorAll("[data-copy]")) {
  link.hidden = false;
  link.addEventListener("click", async (event) => {
    if (!navigator.clipboard) return;
    event.preventDefault();
    await navigator.clipboard.writeText(link.dataset.copy || location.href);
    const status = link.parentElement.querySelector("[data-copied]");
    if (status) status.textContent = "Copied.";
  });
}
