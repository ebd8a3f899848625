import { constants } from 'node:os';

export interface Interrupts {
  /** Aborts at the second signal. */
  readonly forced: AbortSignal;
  readonly count: number;
  /** 128 + the first signal's number; undefined without one. */
  readonly exitCode: number | undefined;
  /** Signals act as before. */
  dispose(): void;
}

/** One Ctrl-C may arrive twice: from the terminal, and from npm, which hands it on. */
const SAME_INTERRUPT_MS = 300;

/** SIGINT or SIGTERM: the first one asks for an end, the second one forces it. */
export function followInterrupts(onFirst: () => void): Interrupts {
  const controller = new AbortController();
  let count = 0;
  let exitCode: number | undefined;
  let lastMs = -Infinity;
  const listen = (signal: NodeJS.Signals): void => {
    const sincePreviousMs = performance.now() - lastMs;
    lastMs = performance.now();
    if (sincePreviousMs < SAME_INTERRUPT_MS) return;
    count += 1;
    exitCode ??= 128 + constants.signals[signal];
    if (count === 1) onFirst();
    else controller.abort();
  };
  process.on('SIGINT', listen);
  process.on('SIGTERM', listen);
  return {
    forced: controller.signal,
    get count() {
      return count;
    },
    get exitCode() {
      return exitCode;
    },
    dispose() {
      process.removeListener('SIGINT', listen);
      process.removeListener('SIGTERM', listen);
    },
  };
}
