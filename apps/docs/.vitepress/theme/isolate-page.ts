/** Says that this tab has been loaded again for it. */
const MARK = 'shardwise-isolated';

/**
 * Where the host sends no headers that isolate pages, a service worker adds them, and the page is loaded once more. Where there is
 * none, or it does not help, ranks communicate over ports.
 */
export async function isolatePage(base: string): Promise<void> {
  if (crossOriginIsolated || !isSecureContext || !('serviceWorker' in navigator)) return;
  try {
    if (sessionStorage.getItem(MARK) !== null) return;
    const reload = (): void => {
      sessionStorage.setItem(MARK, '');
      location.reload();
    };
    navigator.serviceWorker.addEventListener('controllerchange', reload, { once: true });
    await navigator.serviceWorker.register(`${base}isolate.js`, { scope: base });
  } catch {
    // The browser forbids it here. Live parts of pages say what follows from it.
  }
}
