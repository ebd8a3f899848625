import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { compileFunction } from 'node:vm';
import { nn, ones, optim } from '@shardwise/core';
import { describe, expect, it } from 'vitest';
import { failureReport } from '../src/launcher/failure.ts';
import { callAdvice } from '../src/text/call-advice.ts';

/** Returns the error of an expression of `model` and `x` in JavaScript, which TypeScript would refuse. */
function errorOf(expression: string): Error {
  return thrownBy(() => {
    compileFunction(expression, ['model', 'x'])(new nn.Linear(2, 1), ones([3, 2]));
  });
}

function thrownBy(call: () => unknown): Error {
  try {
    call();
  } catch (error) {
    if (error instanceof Error) return error;
  }
  throw new TypeError('nothing was thrown');
}

describe('a call without await', () => {
  it.each(['parameters()', 'forward(x)', 'eval()'])('is told to await: model.%s', (call) => {
    const error = errorOf(`(function (model) { model.${call} })(Promise.resolve(model))`);
    const todo =
      'If model is a Promise, as init(), fromPretrained(…) and parallelize(…) return it, await it: const model = await …';
    expect(callAdvice(error)).toBe(todo);
  });

  it('is told to await what a function was given', () => {
    const wrong: never = Promise.resolve(new nn.Linear(2, 1)) as never;
    const error = thrownBy(() => new optim.AdamW(wrong, { lr: 1 }));
    expect(String(error)).toContain('AdamW: a Promise where parameters are expected');
    const outcome = { rank: 0, exitCode: 1, error, terminated: false, logPath: '', lastLines: [] };
    const report = failureReport({ outcomes: [outcome], culprit: 0 });
    expect(report.at(-1)).toMatch(/^A Promise is what .* Write await before its call/);
  });
});

describe('a call that is written as in PyTorch', () => {
  it.each([
    ['model(x)', 'If model is a module, call its forward: model.forward(…)'],
    ['x.view(-1)', "PyTorch's view is written in another way: reshape([…])"],
    ['x.masked_fill(x, 0)', 'Names are in camelCase: maskedFill'],
  ])('is told what to write: %s', (expression, todo) => {
    const error = errorOf(expression);
    expect(callAdvice(error)).toBe(todo);
    const outcome = { rank: 0, exitCode: 1, error, terminated: false, logPath: '', lastLines: [] };
    expect(failureReport({ outcomes: [outcome], culprit: 0 }).at(-1)).toBe(todo);
  });

  it('is told it by a program without launcher, too', async () => {
    const program = `
      const { init, ones } = await import('shardwise');
      await init();
      ones([3, 2]).view(-1);`;
    const sources = join(import.meta.dirname, '../../../test/support/resolve-sources.ts');
    const node = ['--conditions=@shardwise/source', `--import=${sources}`];
    const args = [...node, '--input-type=module', '--eval', program];
    const cwd = join(import.meta.dirname, '..');
    await expect(promisify(execFile)(process.execPath, args, { cwd })).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        /view is not a function\n    at [^]*\n\nPyTorch's view is written in another way: reshape\(\[…\]\)\n/,
      ),
    });
  });

  it.each([new TypeError('x is null'), new Error('a is not a function'), 'a is not a function'])(
    'other errors are left alone: %s',
    (error) => {
      expect(callAdvice(error)).toBeUndefined();
    },
  );
});
