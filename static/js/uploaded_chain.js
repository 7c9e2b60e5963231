// Waits until the chain is scored, then shows it.
import { poll } from "./poll.js";

poll(
  document.querySelector("#waiting").dataset.state,
  ({ state }) => {
    if (state === "waiting") return true;
    location.reload();
    return false;
  },
  { often: 1500, seldom: 15000 },
);
