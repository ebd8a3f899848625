// Runs a program of the playground: alone, or as a rank, where the program calls init().
import { importsOf } from './translate.ts';
import { isProgram, type WorkerMessage } from './messages.ts';
import { showValue } from './show-value.ts';

type Exports = Readonly<Record<string, unknown>>;

/** What programs can import, and what it is in a page. */
const modules: Readonly<Record<string, () => Promise<Exports>>> = {
  '@shardwise/core': () => import('@shardwise/core'),
  '@shardwise/core/extend': () => import('@shardwise/core/extend'),
  '@shardwise/core/spec': () => import('@shardwise/core/spec'),
  '@shardwise/collectives': () => import('@shardwise/collectives'),
  '@shardwise/strategies': () => import('@shardwise/strategies'),
  '@shardwise/backend-webgpu': () => import('@shardwise/backend-webgpu'),
  '@shardwise/backend-cpu': async () => ({
    cpu: (await import('@shardwise/backend-cpu/wasm')).wasm,
  }),
  '@shardwise/testing': () => import('./testing-exports.ts'),
  shardwise: async () => ({
    ...(await import('@shardwise/collectives')),
    ...(await import('shardwise/browser')),
  }),
};

const post = (message: WorkerMessage): void => globalThis.postMessage(message);

const line =
  (level: 'log' | 'error') =>
  (...values: readonly unknown[]): void =>
    post({ playground: 'line', level, text: values.map((value) => showValue(value)).join(' ') });
const consoleOfPrograms = {
  log: line('log'),
  info: line('log'),
  debug: line('log'),
  table: line('log'),
  warn: line('error'),
  error: line('error'),
};

async function run(program: string): Promise<void> {
  const loaded = new Map<string, Exports>();
  for (const name of importsOf(program)) {
    const load = modules[name];
    if (load === undefined) {
      throw new Error(
        `import '${name}': pages do not have it. Import one of ${Object.keys(modules).join(', ')}`,
      );
    }
    loaded.set(name, await load());
  }
  const AsyncFunction = run.constructor as new (
    ...parts: string[]
  ) => (...values: unknown[]) => Promise<void>;
  const body = new AsyncFunction('require', 'exports', 'console', program);
  await body((name: string) => loaded.get(name), {}, consoleOfPrograms);
}

globalThis.addEventListener('message', ({ data }: MessageEvent<unknown>) => {
  if (!isProgram(data)) return;
  run(data.program).then(
    () => post({ playground: 'end' }),
    (error: unknown) => {
      post({ playground: 'line', level: 'error', text: String(error) });
      post({ playground: 'end' });
      // The other ranks hear of it.
      throw error;
    },
  );
});
