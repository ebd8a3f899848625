import { constants } from 'node:os';

export interface Interrupts {
  /** Aborts at the second signal. */
  readonly forced: AbortSignal;
  readonly count: number;
  /** 128 + the number of the first signal. Undefined if none has come. */
  readonly exitCode: number | undefined;
  /** Stops listening, so that signals act as before. */
  dispose(): void;
}

/**
 * One Ctrl-C may arrive twice: from the terminal, and from npm, which passes it on. Signals this close count as one.
 */
const SAME_INTERRUPT_MS = 300;

/** Listens to SIGINT and SIGTERM. The first signal asks the run to end, and the second one forces it to. */
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
