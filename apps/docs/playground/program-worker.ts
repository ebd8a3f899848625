// Runs a program of the playground. The program runs alone, or as a rank if it calls init().
import { importsOf } from './translate.ts';
import { isProgram, MOST_LINES, type PrintedLine, type WorkerMessage } from './messages.ts';
import { showValue } from './show-value.ts';

type Exports = Readonly<Record<string, unknown>>;

/** The modules that programs can import, and what each of them is in a page. */
const modules: Readonly<Record<string, () => Promise<Exports>>> = {
  '@shardwise/core': () => import('@shardwise/core'),
  '@shardwise/core/extend': () => import('@shardwise/core/extend'),
  '@shardwise/core/spec': () => import('@shardwise/core/spec'),
  '@shardwise/core/base': () => import('@shardwise/core/base'),
  '@shardwise/collectives': () => import('@shardwise/collectives'),
  '@shardwise/strategies': () => import('@shardwise/strategies'),
  '@shardwise/parameter-server': () => import('@shardwise/parameter-server'),
  '@shardwise/data': () => import('@shardwise/data'),
  '@shardwise/models': () => import('@shardwise/models'),
  '@shardwise/serve': () => import('@shardwise/serve'),
  '@shardwise/planner': () => import('@shardwise/planner'),
  '@shardwise/backend-webgpu': () => import('@shardwise/backend-webgpu'),
  '@shardwise/backend-cpu': async () => ({
    cpu: (await import('@shardwise/backend-cpu/wasm')).wasm,
  }),
  '@shardwise/testing': () => import('./testing-exports.ts'),
  shardwise: () => import('shardwise/browser'),
};

/** The name of the program in stacks of errors. */
const FILE = 'program.ts';
/** The number of lines that AsyncFunction puts before a program. */
const LINES_BEFORE = 2;

const post = (message: WorkerMessage): void => globalThis.postMessage(message);

/**
 * The greatest number of messages with lines in WINDOW_MS. A program that prints more sends its last lines together, so
 * that the page stays responsive.
 */
const MOST_MESSAGES = 100;
const WINDOW_MS = 100;
let waiting: PrintedLine[] = [];
let sentMessages = 0;
let windowStartMs = 0;

function sendLines(): void {
  if (waiting.length === 0) return;
  post({ playground: 'lines', lines: waiting });
  waiting = [];
  sentMessages += 1;
}

function print(printed: PrintedLine): void {
  const now = performance.now();
  if (now - windowStartMs >= WINDOW_MS) {
    windowStartMs = now;
    sentMessages = 0;
  }
  if (waiting.push(printed) === 1 && sentMessages >= MOST_MESSAGES)
    setTimeout(sendLines, WINDOW_MS);
  if (waiting.length > MOST_LINES) waiting.shift();
  if (sentMessages < MOST_MESSAGES) sendLines();
}

const line =
  (level: 'log' | 'error') =>
  (...values: readonly unknown[]): void =>
    print({ level, text: values.map((value) => showValue(value)).join(' ') });
const consoleOfPrograms = {
  log: line('log'),
  info: line('log'),
  debug: line('log'),
  table: line('log'),
  warn: line('error'),
  error: line('error'),
};
// What the library prints for a program, such as the summary of a logger, is a line of the program, too.
globalThis.console.log = consoleOfPrograms.log;

/**
 * Returns what a program can import from a module. As in Node, importing a name that the module does not have is an
 * error.
 */
function importable(name: string, exports: Exports): Exports {
  return new Proxy(exports, {
    get(target, key) {
      if (key in target || typeof key === 'symbol' || key === '__esModule') {
        return Reflect.get(target, key);
      }
      throw new SyntaxError(
        `import { ${key} } from '${name}': it exports no such name. The reference lists all names that there are`,
      );
    },
  });
}

async function run(program: string): Promise<void> {
  const loaded = new Map<string, Exports>();
  for (const name of importsOf(program)) {
    const load = modules[name];
    if (load === undefined) {
      throw new Error(
        `import '${name}': pages do not have it. Import one of ${Object.keys(modules).join(', ')}`,
      );
    }
    loaded.set(name, importable(name, await load()));
  }
  const AsyncFunction = run.constructor as new (
    ...parts: string[]
  ) => (...values: unknown[]) => Promise<void>;
  const body = new AsyncFunction(
    'require',
    'exports',
    'console',
    `${program}\n//# sourceURL=${FILE}`,
  );
  await body((name: string) => loaded.get(name), {}, consoleOfPrograms);
}

/** Describes what was thrown, and the line of the program that threw it if the browser tells it. */
function failureText(thrown: unknown): string {
  if (!(thrown instanceof Error)) {
    return `The program has thrown ${showValue(thrown, 1)}, which is no Error. Throw new Error(…), which says where it was thrown`;
  }
  const [, line] = new RegExp(`${FILE}:(\\d+):\\d+`).exec(thrown.stack ?? '') ?? [];
  const place = line === undefined ? '' : `\n    in line ${Number(line) - LINES_BEFORE}`;
  return `${String(thrown)}${place}`;
}

function end(): void {
  sendLines();
  post({ playground: 'end' });
}

function fail(thrown: unknown): void {
  sendLines();
  post({ playground: 'failed', text: failureText(thrown) });
  end();
}

// These are errors that the program does not catch, including those of promises that it does not await. A rank also
// reports them to the other ranks.
globalThis.addEventListener('unhandledrejection', ({ reason }) => fail(reason));
globalThis.addEventListener('error', ({ error }) => fail(error));
globalThis.addEventListener('message', ({ data }: MessageEvent<unknown>) => {
  if (isProgram(data)) void run(data.program).then(end);
});
