import { createRequire } from 'node:module';
import { ConfigError } from '@shardwise/core/spec';
import type koffi from 'koffi';

/**
 * The stack of koffi's threads, in bytes. Native code that other packages call from this thread needs it, because
 * koffi's default is 128 KiB.
 */
const CALL_STACK_BYTES = 4 << 20;

/**
 * Loads the optional package koffi, which calls native libraries of Linux. `asked` names in messages what needs it.
 * Throws ConfigError if koffi cannot be loaded.
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
 * Sets the size of stacks for all code of the thread. It is fixed once a library has been loaded. With small stacks a
 * backend would have to compute on the thread that moves messages.
 */
function growCallStacks({ config }: typeof koffi): void {
  try {
    config({ async_stack_size: CALL_STACK_BYTES });
  } catch {
    // A library has been loaded before, so the size cannot be changed any more.
  }
}
