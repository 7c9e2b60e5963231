// Waits until the chain is scored, then loads its result.
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
