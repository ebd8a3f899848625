import { ConfigError, describeValue } from '@shardwise/core/extend';
import { MAX_METRICS, METRIC_NAME } from '../run-state/named-metrics.ts';
import type { StepMetrics } from './step-metrics.ts';

const isNumber = (value: unknown): boolean => typeof value === 'number';
const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && Number(value) >= 0;
const isAmount = (value: unknown): boolean => typeof value === 'number' && value >= 0;
const isRecord = (value: unknown): boolean => typeof value === 'object' && value !== null;

/** The rule of each field of StepMetrics. */
const fields = {
  step: [isCount, 'a whole number'],
  totalSteps: [(value) => isCount(value) && value !== 0, 'a whole number from 1'],
  loss: [isNumber, 'a number'],
  validationLoss: [isNumber, 'a number'],
  learningRate: [isNumber, 'a number'],
  metrics: [isRecord, 'numbers by name'],
  tokens: [isAmount, 'a number from 0'],
  samples: [isAmount, 'a number from 0'],
  memory: [isRecord, 'what memory() returned'],
} as const satisfies Record<keyof StepMetrics, readonly [(value: unknown) => boolean, string]>;

/** Checks what a script reports, because its types may not have been checked. Remembers the names and the last step. */
export class MetricsCheck {
  readonly #names = new Set<string>();
  #last: number | undefined;

  /** Throws ConfigError if a report is wrong. */
  check(report: StepMetrics): void {
    for (const [name, value] of Object.entries(report)) {
      if (!isField(name)) throw unknownField(name, value);
      const [isValid, takes] = fields[name];
      if (value !== undefined && !isValid(value)) throw refusal(name, value, takes);
    }
    const { step, metrics = {} } = report;
    if (step === undefined) throw refusal('step', step, fields.step[1]);
    for (const [name, value] of Object.entries(metrics)) this.#checkMetric(name, value);
    this.#checkStep(step);
  }

  #checkMetric(name: string, value: unknown): void {
    if (!METRIC_NAME.test(name)) {
      throw new ConfigError(
        {
          asked: 'to report a metric',
          found: `the name ${JSON.stringify(name.slice(0, 80))}`,
          todo: 'Begin it with a letter or a digit, and use at most 64 letters, digits, spaces and ._/:@%+()#-',
        },
        { name },
      );
    }
    if (!isNumber(value)) throw refusal(`metrics.${name}`, value, 'a number');
    this.#names.add(name);
    if (this.#names.size <= MAX_METRICS) return;
    throw new ConfigError(
      {
        asked: `to report the metric "${name}"`,
        found: `${this.#names.size} names in this run; the limit is ${MAX_METRICS}`,
        todo: 'Give each curve one name, which does not change from step to step',
      },
      { name, limit: MAX_METRICS },
    );
  }

  #checkStep(step: number): void {
    const last = this.#last;
    if (last !== undefined && step <= last) {
      throw new ConfigError(
        {
          asked: `to report step ${step}`,
          found: step === last ? 'it has been reported' : `step ${last} has been reported`,
          todo: 'Count updates over all epochs, and report all of a step in one call',
        },
        { step, last },
      );
    }
    this.#last = step;
  }
}

function isField(name: string): name is keyof StepMetrics {
  return Object.hasOwn(fields, name);
}

function unknownField(name: string, value: unknown): ConfigError {
  return new ConfigError(
    {
      asked: 'to report a step',
      found: `no figure is called ${JSON.stringify(name)}`,
      todo: isNumber(value)
        ? `Give it among the metrics: report({ …, metrics: { ${JSON.stringify(name)}: ${String(value)} } })`
        : `The figures are ${Object.keys(fields).join(', ')}`,
    },
    { name },
  );
}

function refusal(name: string, value: unknown, takes: string): ConfigError {
  return new ConfigError(
    {
      asked: `to report ${name}`,
      found: describeValue(value),
      todo: `Give ${takes}${wayText(value)}`,
    },
    { name },
  );
}

/** Suggests how to get the value that was probably meant. */
function wayText(value: unknown): string {
  if (value instanceof Promise) return ': await it';
  if (typeof value === 'bigint') return ': Number(…)';
  return typeof value === 'object' && value !== null && 'item' in value ? ': await ….item()' : '';
}

/** Checks the argument of `describe`. Throws ConfigError. */
export function checkFacts(facts: Readonly<Record<string, unknown>>): void {
  for (const [name, value] of Object.entries(facts)) {
    const isFact = ['string', 'boolean'].includes(typeof value) || Number.isFinite(value);
    if (!isFact) throw refusal(`the fact "${name}"`, value, 'a text, a finite number or a boolean');
  }
}
