// A service worker for hosts that send no headers of their own choice: it adds those that let a page share memory between its workers.
addEventListener('install', () => globalThis.skipWaiting());
addEventListener('activate', (event) => event.waitUntil(globalThis.clients.claim()));
addEventListener('fetch', (event) => {
  const { request } = event;
  if (new URL(request.url).origin === location.origin) event.respondWith(isolated(request));
});

async function isolated(request) {
  const response = await fetch(request);
  // A redirection, which only the browser may read.
  if (response.status === 0) return response;
  const headers = new Headers(response.headers);
  headers.set('Cross-Origin-Opener-Policy', 'same-origin');
  headers.set('Cross-Origin-Embedder-Policy', 'require-corp');
  const { status, statusText, body } = response;
  return new Response(body, { status, statusText, headers });
}
