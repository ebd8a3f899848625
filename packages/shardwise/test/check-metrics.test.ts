import { ones } from '@shardwise/core';
import { ConfigError } from '@shardwise/core';
import { describe, expect, it } from 'vitest';
import { checkFacts, MetricsCheck } from '../src/rank/check-metrics.ts';
import type { StepMetrics } from '../src/rank/step-metrics.ts';
import { parseRankMessage } from '../src/run-state/run-message.ts';
import { stepReport } from './run-fixture.ts';

/** Checks values without type checks, as a script in JavaScript does. */
function reports(...values: readonly unknown[]): () => void {
  const check = new MetricsCheck();
  return () => {
    for (const value of values) check.check(value as StepMetrics);
  };
}

describe('what a script reports', () => {
  it('may be any figure under any name, also one that has diverged', () => {
    const metrics = { accuracy: 0.5, 'F1 (macro)': NaN, 'grad norm/layer 0': Infinity, 精度: 1 };
    expect(reports({ step: 0 }, { step: 1, loss: NaN, metrics })).not.toThrow();
    const report = stepReport(0, 1, { metrics });
    expect(parseRankMessage(structuredClone(report))).toEqual(report);
  });

  it.each([
    [
      'a figure of its own',
      { step: 1, accuracy: 0.5 },
      /no figure is called "accuracy".* metrics: \{ "accuracy": 0\.5 \}/,
    ],
    ['a figure that is misspelt', { step: 1, los: 0.5 }, /no figure is called "los"/],
    [
      'what is no figure',
      { step: 1, model: {} },
      /no figure is called "model"\. The figures are step, totalSteps/,
    ],
    ['half a step', { step: 1.5 }, /to report step: 1\.5\. Give a whole number/],
    ['no step', {}, /to report step: undefined/],
    ['a text', { step: 1, loss: '0.5' }, /to report loss: '0\.5'\. Give a number/],
    [
      'a tensor',
      { step: 1, loss: ones([]) },
      /to report loss: a Tensor\. Give a number: await ….item\(\)/,
    ],
    [
      'a promise',
      { step: 1, loss: Promise.resolve(1) },
      /to report loss: a Promise\. Give a number: await it/,
    ],
    ['a big integer', { step: 1, tokens: 3n }, /to report tokens: 3n\. .*: Number\(…\)/],
    ['no steps in all', { step: 1, totalSteps: 0 }, /to report totalSteps: 0/],
    [
      'a metric that is a tensor',
      { step: 1, metrics: { accuracy: ones([]) } },
      /to report metrics\.accuracy: a Tensor/,
    ],
    [
      'a metric that is not there',
      { step: 1, metrics: { accuracy: undefined } },
      /to report metrics\.accuracy: undefined/,
    ],
    [
      'a metric without a name',
      { step: 1, metrics: { '': 1 } },
      /the name ""\. Begin it with a letter or a digit/,
    ],
    ['a metric of two lines', { step: 1, metrics: { 'two\nlines': 1 } }, /the name "two\\nlines"/],
    [
      'a metric that colours the terminal',
      { step: 1, metrics: { '\u001B[31m': 1 } },
      /the name "\\u001b\[31m"/,
    ],
    [
      'a metric with a long name',
      { step: 1, metrics: { ['x'.repeat(65)]: 1 } },
      /at most 64 letters/,
    ],
  ])('is refused where it is %s', (_, report, message) => {
    expect(reports(report)).toThrow(ConfigError);
    expect(reports(report)).toThrow(message);
  });

  it('is refused for a step that has been reported: its figures would be counted twice', () => {
    expect(reports({ step: 1 }, { step: 1, validationLoss: 2 })).toThrow(
      /to report step 1: it has been reported\. Count updates over all epochs, and report all of a step in one call/,
    );
    expect(reports({ step: 4 }, { step: 1 })).toThrow(/to report step 1: step 4 has been reported/);
  });

  it('has at most 64 names in a run', () => {
    const steps = Array.from({ length: 65 }, (_, index) => ({
      step: index,
      metrics: { [`loss of step ${index}`]: 1 },
    }));
    expect(reports(...steps.slice(1))).not.toThrow();
    expect(reports(...steps)).toThrow(
      /65 names in this run; the limit is 64\. Give each curve one/,
    );
  });
});

describe('what a script says of a run', () => {
  it('is texts, finite numbers and booleans', () => {
    expect(() => checkFacts({ parameters: 10, name: 'gpt', tied: true })).not.toThrow();
    expect(() => checkFacts({ parameters: NaN })).toThrow(/the fact "parameters": NaN/);
    expect(() => checkFacts({ model: {} })).toThrow(/the fact "model": an object/);
  });
});
