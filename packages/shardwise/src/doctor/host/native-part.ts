import { fork } from 'node:child_process';
import { z } from 'zod';

/** The parts of native code that a host may have. */
export type NativePart =
  | 'onnxruntime'
  | 'machine-code'
  | 'shared-memory'
  | 'open-mpi'
  | 'mpich'
  | 'webgpu';

/** Whether a part works: what it calls itself, or why it doesn't. */
export type NativeAnswer =
  | { readonly available: true; readonly found: string }
  | {
      readonly available: false;
      readonly reason: string;
      /** The limit at which the process that tried the part was ended. Nothing is known of the part then. */
      readonly endedAfterMs?: number;
    };

const answerSchema: z.ZodType<NativeAnswer> = z.union([
  z.object({ available: z.literal(true), found: z.string().max(4096) }),
  z.object({ available: z.literal(false), reason: z.string().max(65_536) }),
]);

/** How long a part may take. A driver that hangs would otherwise hang the doctor. */
const LIMIT_MS = 15_000;

/** Tries a part in a process of its own. What crashes or hangs there is an answer too. */
export function askNativePart(part: NativePart, limitMs: number = LIMIT_MS): Promise<NativeAnswer> {
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  const child = fork(new URL(`./probe-process.${extension}`, import.meta.url), [part], {
    // What libraries print is none of the doctor's business.
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  });
  const { promise, resolve } = Promise.withResolvers<NativeAnswer>();
  const limit = setTimeout(() => {
    const reason = `it did not answer within ${limitMs / 1000} s`;
    resolve({ available: false, reason, endedAfterMs: limitMs });
  }, limitMs);
  child.once('message', (value) => {
    const parsed = answerSchema.safeParse(value);
    resolve(
      parsed.success ? parsed.data : { available: false, reason: 'its answer is unreadable' },
    );
  });
  child.once('error', ({ message }) => resolve({ available: false, reason: message }));
  child.once('exit', (code, signal) => {
    const fate = signal === null ? `with code ${code}` : `by ${signal}`;
    resolve({ available: false, reason: `the process that tried it was ended ${fate}` });
  });
  return promise.finally(() => {
    clearTimeout(limit);
    child.kill('SIGKILL');
  });
}
