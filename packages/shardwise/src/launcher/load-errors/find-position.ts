import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { stackFrames } from '@shardwise/core/base';
import { advice } from './advice.ts';
import { scriptFiles, type ScriptFile } from './script-files.ts';
import { positionAt, positionAtHead, type SourcePosition } from './source-position.ts';

/** Why a script could not be loaded. */
export interface LoadFault {
  readonly position: SourcePosition;
  /** What to write instead, if it is known. */
  readonly todo: string | undefined;
}

/**
 * Returns the place in the source that prevents a script from being loaded. Returns undefined for errors of code that
 * ran.
 */
export async function findLoadFault(
  error: unknown,
  script: string,
): Promise<LoadFault | undefined> {
  const position = await findPosition(error, script);
  if (position === undefined) return undefined;
  let last = error;
  while (last instanceof Error && last.cause instanceof Error) last = last.cause;
  return { position, todo: last instanceof Error ? await advice(last, position) : undefined };
}

async function findPosition(error: unknown, script: string): Promise<SourcePosition | undefined> {
  if (!(error instanceof Error)) return undefined;
  if (error.cause instanceof Error) {
    const found = await findPosition(error.cause, script);
    if (found !== undefined) return found;
  }
  const said = positionAtHead(error.stack ?? '');
  if (said !== undefined) return said;
  if (stackFrames(error.stack ?? '').length > 0) return undefined;
  const files = await scriptFiles(script);
  return error.name === 'SyntaxError' ? parseAll(files, error.message) : findImport(error, files);
}

const PARSE_LIMIT_MS = 10_000;

/** Finds the first syntax error of several modules, in what a process that parses them prints. */
async function parseAll(
  files: readonly ScriptFile[],
  message: string,
): Promise<SourcePosition | undefined> {
  const paths = files.map(({ path }) => path).filter((path) => !/\.c[jt]s$/.test(path));
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  const program = fileURLToPath(new URL(`./parse-modules.${extension}`, import.meta.url));
  const args = ['--no-warnings', '--experimental-vm-modules', program, ...paths];
  const printed = await new Promise<string>((resolve) => {
    execFile(process.execPath, args, { timeout: PARSE_LIMIT_MS }, (_, __, stderr) =>
      resolve(stderr),
    );
  });
  // A different message is about a file that the script does not load.
  if (!printed.includes(message)) return undefined;
  return positionAtHead(printed.slice(Math.max(0, printed.search(/^file:/m))));
}

/** Finds the import that caused an error such as `Cannot find module '/a/b.ts' imported from /a/train.ts`. */
function findImport(error: Error, files: readonly ScriptFile[]): SourcePosition | undefined {
  const { message } = error;
  const importer = / imported from (?<path>.+)$/.exec(message)?.groups?.['path'];
  const looked =
    importer === undefined ? files : files.filter(({ path }) => path === pathFrom(importer));
  const quoted = [...message.matchAll(/['"](?<name>[^'"]+)['"]| for (?<path>\S+)$/g)].map(
    ({ groups }) => pathFrom(groups?.['name'] ?? groups?.['path'] ?? ''),
  );
  for (const { path, source, imports } of looked) {
    const found = imports.find(
      ({ specifier, path: target }) =>
        quoted.includes(target ?? specifier) ||
        (target === undefined && quoted.includes(packageOf(specifier))),
    );
    if (found !== undefined) return positionAt(path, source, found.offset);
  }
  return undefined;
}

function pathFrom(place: string): string {
  return place.startsWith('file://') && URL.canParse(place) ? fileURLToPath(place) : place;
}

/** Returns `@scope/name` for `@scope/name/sub/path`. */
function packageOf(specifier: string): string {
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');
}
