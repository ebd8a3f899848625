import {
  type FolderFile,
  MAX_TEXT_BYTES,
  type ModelFolder,
} from '../serialization/model-folder.ts';
import { openHttpFile } from './http-file.ts';
import {
  type HttpOptions,
  httpSender,
  nameOfUrl,
  parseHttpUrl,
  readLimited,
  refused,
  requireSettled,
  withRetries,
} from './http-request.ts';

/**
 * A folder of a web server, of which files are read in ranges. The query of `url`, such as the signature of a store, is
 * that of all its files. A file that changes while it is read is a CheckpointError, and so is a server that does not
 * answer with ranges. It also works in pages. Throws ConfigError for another scheme than http or https.
 */
export function httpFolder(url: string | URL, options: HttpOptions = {}): ModelFolder {
  const base = parseHttpUrl('httpFolder', url);
  const send = httpSender('httpFolder', options);
  const retries = options.retries ?? 3;
  const urlOf = (name: string): URL => {
    const file = new URL(base);
    file.pathname = `${base.pathname.replace(/\/$/, '')}/${encodePath(name)}`;
    return file;
  };
  return {
    place: nameOfUrl(base).replace(/\/$/, ''),
    open: (name) => openHttpFile({ url: urlOf(name), send, retries }),

    async readText(name) {
      const file = urlOf(name);
      return withRetries(`to read ${nameOfUrl(file)}`, retries, async () => {
        const response = await send(file, {});
        await requireSettled(response);
        const { status } = response;
        if (status === 200) {
          const bytes = await readLimited(nameOfUrl(file), response, MAX_TEXT_BYTES);
          return new TextDecoder().decode(bytes);
        }
        await response.body?.cancel();
        if (status === 404 || status === 410) return undefined;
        throw refused(nameOfUrl(file), `status ${status}`, 'Check the URL and its headers');
      });
    },
  };
}

/** A file of a web server, as a file of the folder in which it is. Throws ConfigError as httpFolder does. */
export function httpFile(url: string | URL, options: HttpOptions = {}): FolderFile {
  const parsed = parseHttpUrl('httpFile', url);
  const end = parsed.pathname.lastIndexOf('/');
  const name = decodeURIComponent(parsed.pathname.slice(end + 1));
  parsed.pathname = parsed.pathname.slice(0, end);
  return { folder: httpFolder(parsed, options), name };
}

/** A path of a URL. Bytes that have a meaning there are escaped, also those that signatures must escape. */
export function encodePath(path: string): string {
  const escape = (byte: string): string => `%${byte.charCodeAt(0).toString(16).toUpperCase()}`;
  return path
    .split('/')
    .map((part) => encodeURIComponent(part).replace(/[!'()*]/g, escape))
    .join('/');
}
