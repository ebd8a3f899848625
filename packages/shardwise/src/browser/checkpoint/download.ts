/** Makes the browser save a file among the visitor's downloads. Only a page can call it, not a rank. */
export function download(file: File): void {
  const address = URL.createObjectURL(file);
  const link = document.createElement('a');
  link.href = address;
  link.download = file.name;
  link.click();
  // The browser has opened the file by then. It keeps reading a long file after the address is revoked.
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
