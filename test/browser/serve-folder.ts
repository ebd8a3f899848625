import { existsSync, readFileSync } from 'node:fs';
import { extname, join, resolve, sep } from 'node:path';
import { servePage, type PageFile, type ServedPage } from '../support/serve-page.ts';

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
};

/** Serves a built page and its tasks to a browser. If `isolated`, the headers isolate the page. */
export function serveFolder(
  folder: string,
  { isolated, tasks }: { readonly isolated: boolean; readonly tasks: unknown },
): Promise<ServedPage> {
  const fileAt = (pathname: string): PageFile | undefined => {
    if (pathname === '/tasks') return { type: 'application/json', body: JSON.stringify(tasks) };
    const file = resolve(folder, `.${pathname === '/' ? '/index.html' : pathname}`);
    if (!file.startsWith(join(folder, sep)) || !existsSync(file)) return undefined;
    return { type: types[extname(file)] ?? 'application/octet-stream', body: readFileSync(file) };
  };
  return servePage({ isolated, fileAt });
}
