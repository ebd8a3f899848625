import type { Hono } from 'hono';
import { pageHtml } from './page-html.ts';
import { pageScript } from './page-script.ts';
import { pageStyle } from './page-style.ts';

/** The page runs no script but its own, asks nobody but its own server, and lies in no other page. */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  'img-src data:',
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
].join('; ');

const files = [
  ['/', 'text/html', pageHtml],
  ['/page.css', 'text/css', pageStyle],
  ['/page.js', 'text/javascript', pageScript],
] as const;

/** Where the page and its files are, for which nobody needs a key. */
export const pagePaths: readonly string[] = files.map(([path]) => path);

/** Serves the page with a chat. It contains nothing that needs a key, and asks for one if the interface does. */
export function addPage(app: Hono): void {
  for (const [path, type, text] of files) {
    app.get(
      path,
      () =>
        new Response(text, {
          headers: {
            'content-type': `${type}; charset=utf-8`,
            'content-security-policy': policy,
            'x-content-type-options': 'nosniff',
            'referrer-policy': 'no-referrer',
            'cross-origin-opener-policy': 'same-origin',
            'cache-control': 'no-cache',
          },
        }),
    );
  }
}
