// Gives each block of commands a button that copies it. Without this script the page lacks nothing else.
for (const block of navigator.clipboard ? document.querySelectorAll("pre[data-copy]") : []) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(block.querySelector("code").textContent.trim());
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select and copy";
    }
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  // Above the block, so that it covers no command.
  const commands = document.createElement("div");
  commands.className = "commands";
  block.before(commands);
  commands.append(button, block);
}
