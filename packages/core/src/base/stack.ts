/** One call on a stack. */
export interface StackFrame {
  /** The frame in the engine's notation. */
  readonly text: string;
  /** The name of the function. Empty if it has none. */
  readonly name: string;
  /** The path of the file, or the URL if the code does not come from a file. */
  readonly path: string;
  readonly line: number;
  readonly column: number;
  /** Whether it is code of these packages. */
  readonly isOurs: boolean;
}

/** A stack. The engine makes its text when it is first read. */
export interface CapturedStack {
  readonly stack?: string;
}

/** Frames of the library lie between the user's line and a capture. Nested modules have the most of them. */
const MAX_FRAMES = 64;

/**
 * Captures the stack from the caller on, with at most `frames` frames. It takes 5 to 10 µs for 40 frames. `captured` is
 * what keeps it; if that has a stack, it stays as it is.
 */
export function captureStack(
  captured: CapturedStack = {},
  frames: number = MAX_FRAMES,
): CapturedStack {
  // Only V8 makes the text of a captured stack when it is first read. In other engines an error has it at once.
  if (typeof Error.captureStackTrace !== 'function') return new Error('stack');
  if ('stack' in captured) return captured;
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = frames;
  Error.captureStackTrace(captured, captureStack);
  Error.stackTraceLimit = stackTraceLimit;
  return captured;
}

/** A place in a file. */
export interface CallPlace {
  /** The path of the file, or the URL if the code does not come from a file. */
  readonly path: string;
  readonly line: number;
  readonly column: number;
}

/**
 * The line outside these packages from which the caller was called. Null if there is none. It takes some 10 µs. The
 * text of the stack, which takes longer, is not made in V8.
 */
export function callPlace(): CallPlace | null {
  if (typeof Error.captureStackTrace !== 'function') {
    const frame = stackFrames(new Error('stack').stack ?? '').find(({ isOurs }) => !isOurs);
    return frame ?? null;
  }
  // oxlint-disable-next-line typescript/unbound-method -- it is put back as it was
  const { prepareStackTrace, stackTraceLimit } = Error;
  const captured: CapturedStack = {};
  let place: CallPlace | null = null;
  Error.stackTraceLimit = MAX_FRAMES;
  Error.prepareStackTrace = (_, sites) => {
    const site = sites.find(isOfUser);
    if (site === undefined) return '';
    const [line, column] = [site.getLineNumber() ?? 0, site.getColumnNumber() ?? 0];
    place = { path: pathOf(site.getFileName() ?? ''), line, column };
    return '';
  };
  try {
    Error.captureStackTrace(captured, callPlace);
    // The stack is prepared when it is first read.
    return captured.stack === undefined ? null : place;
  } finally {
    Reflect.set(Error, 'prepareStackTrace', prepareStackTrace);
    Error.stackTraceLimit = stackTraceLimit;
  }
}

const ofUser = new Map<string, boolean>();

function isOfUser(site: NodeJS.CallSite): boolean {
  const file = site.getFileName() ?? '';
  let isUser = ofUser.get(file);
  if (isUser === undefined) {
    isUser = file !== '' && !file.startsWith('node:') && !isOurs(pathOf(file));
    ofUser.set(file, isUser);
  }
  return isUser;
}

/** The frames of a stack outside the engine and Node, innermost first. */
export function stackFrames(stack: string): readonly StackFrame[] {
  return stack.split('\n').flatMap((text) => frameOf(text) ?? []);
}

/** The innermost line of a stack outside these packages, as `path:line:column`. Null if there is none. */
export function userLine(stack: string): string | null {
  const frame = stackFrames(stack).find(({ isOurs }) => !isOurs);
  return frame === undefined ? null : `${frame.path}:${frame.line}:${frame.column}`;
}

/** V8 writes `at name (location)` and `at location`, other engines `name@location`. */
const FRAME = /^(?:\s+at (?:async )?(?:(.*?) \()?|([^@]*)@)(.+?):(\d+):(\d+)\)?$/;

function frameOf(text: string): StackFrame | undefined {
  const [, inV8, inOthers, at, line, column] = FRAME.exec(text) ?? [];
  if (at === undefined || /^(node:|native|<|eval at )/.test(at)) return undefined;
  const path = pathOf(at);
  return {
    text,
    name: inV8 ?? inOthers ?? '',
    path,
    line: Number(line),
    column: Number(column),
    isOurs: isOurs(path),
  };
}

/** The folder that contains this package and its sibling packages. Empty if all code is one bundle of a page. */
const packages =
  /^(.*\/)core\/(?:src\/base|dist\/base|dist\/bundle)\/[^/]+$/.exec(pathOf(import.meta.url))?.[1] ??
  '';

/** Installers that link packages keep each in a folder of its own. */
const INSTALLED = /\/node_modules\/(?:@shardwise\/[^/]+|shardwise)\/(?:src|dist)\//;

function isOurs(path: string): boolean {
  const inside = packages !== '' && path.startsWith(packages) ? path.slice(packages.length) : '';
  return /^[^/]+\/(src|dist)\//.test(inside) || INSTALLED.test(path);
}

/** The path of a `file:` URL. Any other location is returned as it is. */
function pathOf(location: string): string {
  if (!location.startsWith('file://')) return location;
  try {
    return decodeURIComponent(new URL(location).pathname);
  } catch {
    return location;
  }
}
