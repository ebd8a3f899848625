import type { Attributes, Meter } from '@opentelemetry/api';
import type { MetricSink } from './metric-sink.ts';

/** Seconds, in steps of 1, 2.5 and 5. */
const STEP_BOUNDARIES = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100,
];

type Record = (value: number) => void;

/**
 * Returns the sink that records the figures of steps in instruments of a meter. Their names and units follow the
 * semantic conventions of OpenTelemetry: names in a namespace, units of UCUM.
 */
export function openTelemetryInstruments(meter: Meter): MetricSink {
  const gauge = (name: string, unit: string, description: string): Record => {
    const instrument = meter.createGauge(`shardwise.training.${name}`, { unit, description });
    return (value) => instrument.record(value);
  };
  const counter = (name: string, unit: string, description: string) => {
    const instrument = meter.createCounter(`shardwise.training.${name}`, { unit, description });
    return (attributes: Attributes = {}, scale = 1): Record =>
      (value) =>
        instrument.add(value * scale, attributes);
  };
  const durations = meter.createHistogram('shardwise.training.step.duration', {
    unit: 's',
    description: 'The time of a step, of the slowest rank.',
    advice: { explicitBucketBoundaries: STEP_BOUNDARIES },
  });
  const activity = counter('activity.time', 's', 'What the mean rank spent its steps on.');
  const traffic = counter('network.io', 'By', 'Messages between the processes of ranks.');
  const step = gauge('step', '{step}', 'The last step that every rank has reported.');
  const steps = counter('steps', '{step}', 'Steps, also those that were repeated.')();
  const notFinite = counter('non_finite', '{value}', 'Figures that were not numbers, or infinite.');
  const own = meter.createGauge('shardwise.training.metric', {
    unit: '1',
    description: "The script's own metrics, by the attribute shardwise.metric.name.",
  });
  const known: Readonly<{ [figure: string]: Record }> = {
    loss: gauge('loss', '1', 'The mean over the ranks.'),
    validationLoss: gauge('validation_loss', '1', 'The mean over the ranks.'),
    learningRate: gauge('learning_rate', '1', 'The mean over the ranks.'),
    memoryBytes: gauge('memory.usage', 'By', 'The most of any rank.'),
    tokens: counter('tokens', '{token}', 'Tokens of all ranks.')(),
    samples: counter('samples', '{sample}', 'Samples of all ranks.')(),
    stepMs: (value) => durations.record(value / 1000),
    computeMs: activity({ 'shardwise.activity': 'compute' }, 1e-3),
    communicationMs: activity({ 'shardwise.activity': 'communication' }, 1e-3),
    dataMs: activity({ 'shardwise.activity': 'data' }, 1e-3),
    graphMs: activity({ 'shardwise.activity': 'graph' }, 1e-3),
    sentBytes: traffic({ 'network.io.direction': 'transmit' }),
    receivedBytes: traffic({ 'network.io.direction': 'receive' }),
  };
  return ({ step: number, figures }) => {
    step(number);
    steps(1);
    for (const [name, value] of Object.entries(figures)) {
      // JSON has no word for such a value, and a receiver would refuse all figures with it.
      if (!Number.isFinite(value)) notFinite({ 'shardwise.metric.name': name })(1);
      else if (Object.hasOwn(known, name)) known[name]?.(value);
      else own.record(value, { 'shardwise.metric.name': name });
    }
  };
}
