import { createRequire } from 'node:module';
import { ConfigError } from '@shardwise/core/spec';
import type koffi from 'koffi';

/** What native code that other parts of this thread call needs on koffi's threads; koffi gives 128 KiB. */
const CALL_STACK_BYTES = 4 << 20;

/**
 * The optional package koffi, to call native libraries of Linux; `asked` is what needs it. Throws
 * ConfigError where it can't be loaded.
 */
export function loadKoffi(asked: string): typeof koffi {
  const { platform } = process;
  if (platform !== 'linux') {
    const todo = 'Use another transport';
    throw new ConfigError({ asked, found: `this is ${platform}`, todo }, { platform });
  }
  try {
    const loaded: typeof koffi = createRequire(import.meta.url)('koffi');
    growCallStacks(loaded);
    return loaded;
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message.split('\n', 1)[0] : String(cause);
    const found = `the package koffi can't be loaded (${reason})`;
    const todo = 'Install koffi, or use another transport';
    throw new ConfigError({ asked, found, todo }, { platform }, { cause });
  }
}

/**
 * Whoever loads the first library of a thread decides for all: with small stacks a backend would have
 * to compute on the thread that moves messages.
 */
function growCallStacks({ config }: typeof koffi): void {
  try {
    config({ async_stack_size: CALL_STACK_BYTES });
  } catch {
    // A library has been loaded before.
  }
}
