/** The key of a mark in the tab's storage. It says that the tab has already been reloaded for isolation. */
const MARK = 'shardwise-isolated';

/**
 * Isolates a page whose host sends no headers that do. A service worker adds them, and the page is loaded once more.
 * If there is no service worker, or it does not help, ranks communicate over ports.
 */
export async function isolatePage(base: string): Promise<void> {
  if (!isSecureContext || !('serviceWorker' in navigator)) return;
  try {
    if (sessionStorage.getItem(MARK) !== null) return;
    const reload = (): void => {
      sessionStorage.setItem(MARK, '');
      location.reload();
    };
    navigator.serviceWorker.addEventListener('controllerchange', reload, { once: true });
    await navigator.serviceWorker.register(`${base}isolate.js`, { scope: base });
  } catch {
    // The browser does not allow it here. The live parts of pages explain the consequences.
  }
}
