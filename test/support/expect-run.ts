import { expect } from 'vitest';
import type { CodeBlock } from './code-blocks.ts';
import type { Ended } from './run-command.ts';

/** Expects that the program ended without an error, wrote nothing to stderr, and printed what its comments promise. */
export function expectRun(run: Ended, block: CodeBlock): void {
  expect({ exitCode: run.exitCode, stderr: run.stderr }, run.output).toEqual({
    exitCode: 0,
    stderr: '',
  });
  let from = 0;
  for (const text of block.prints) {
    const at = run.stdout.indexOf(text, from);
    expect(at, `'${text}' in:\n${run.stdout.slice(from)}`).toBeGreaterThanOrEqual(0);
    from = at + text.length;
  }
}
