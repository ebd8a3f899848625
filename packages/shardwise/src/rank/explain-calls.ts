import { callAdvice } from '../text/call-advice.ts';

/**
 * From now on, an error that ends this thread says what to write if it comes from a call that is written as in PyTorch.
 * The launcher says it in its report, so this is for ranks without one.
 */
export function explainCalls(): void {
  if (!process.listeners('uncaughtExceptionMonitor').includes(addAdvice)) {
    process.on('uncaughtExceptionMonitor', addAdvice);
  }
}

/** Adds to the stack, which Node prints. */
function addAdvice(error: Error): void {
  const todo = callAdvice(error);
  if (todo !== undefined) error.stack = `${error.stack}\n\n${todo}`;
}
