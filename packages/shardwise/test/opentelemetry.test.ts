import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { StepFigures } from '../src/sinks/metric-sink.ts';
import { loadOpenTelemetry } from '../src/sinks/opentelemetry.ts';
import { OtlpReceiver } from './otlp-receiver.ts';
import { loadSinks } from '../src/sinks/load-sinks.ts';

const step = (number: number, figures: Readonly<Record<string, number>>): StepFigures => ({
  step: number,
  endMs: 1000 * number,
  figures,
});

describe('the sink of OpenTelemetry', () => {
  let receiver = new OtlpReceiver();
  beforeEach(async () => {
    receiver = new OtlpReceiver();
    vi.stubEnv('OTEL_EXPORTER_OTLP_ENDPOINT', await receiver.listen());
  });
  afterEach(() => {
    vi.unstubAllEnvs();
    receiver.close();
  });

  async function give(steps: readonly StepFigures[], told: string[] = []): Promise<void> {
    const [open] = await loadSinks(['opentelemetry']);
    const sink = open?.('runs/gpt-1', (text) => told.push(text));
    for (const each of steps) await sink?.(each);
    await sink?.close?.();
  }

  it('sends what it has been given when the run ends, with names and units of its conventions', async () => {
    const times = { computeMs: 200, communicationMs: 30, dataMs: 10, graphMs: 5 };
    const wire = { sentBytes: 1000, receivedBytes: 500 };
    const figures = { loss: 0.5, tokens: 64, samples: 2, stepMs: 250, ...times, ...wire };
    const more = {
      validationLoss: 0.7,
      learningRate: 0.001,
      memoryBytes: 2048,
      'accuracy/train': 0.9,
    };
    await give([step(1, figures), step(2, { ...figures, ...more, loss: 0.25 })]);
    expect(receiver.requests).toHaveLength(1);
    expect(receiver.values).toEqual({
      'shardwise.training.step {step}': 2,
      'shardwise.training.steps {step}': 2,
      'shardwise.training.loss 1': 0.25,
      'shardwise.training.validation_loss 1': 0.7,
      'shardwise.training.learning_rate 1': 0.001,
      'shardwise.training.memory.usage By': 2048,
      'shardwise.training.tokens {token}': 128,
      'shardwise.training.samples {sample}': 4,
      'shardwise.training.step.duration s': 0.5,
      'shardwise.training.activity.time{compute} s': 0.4,
      'shardwise.training.activity.time{communication} s': 0.06,
      'shardwise.training.activity.time{data} s': 0.02,
      'shardwise.training.activity.time{graph} s': 0.01,
      'shardwise.training.network.io{transmit} By': 2000,
      'shardwise.training.network.io{receive} By': 1000,
      'shardwise.training.metric{accuracy/train} 1': 0.9,
    });
  });

  it('names the run, and takes the attributes of the environment first', async () => {
    vi.stubEnv('OTEL_RESOURCE_ATTRIBUTES', 'service.name=my-training,team=language');
    await give([step(1, { loss: 1 })]);
    expect(receiver.requests[0]?.resourceMetrics[0]?.resource.attributes).toMatchObject({
      'service.name': 'my-training',
      'service.instance.id': 'gpt-1',
      team: 'language',
      'telemetry.sdk.language': 'nodejs',
    });
  });

  it('counts figures that JSON cannot express, and sends the others', async () => {
    await give([step(1, { loss: NaN, perplexity: Infinity, tokens: 8 })]);
    expect(receiver.values).toMatchObject({
      'shardwise.training.non_finite{loss} {value}': 1,
      'shardwise.training.non_finite{perplexity} {value}': 1,
      'shardwise.training.tokens {token}': 8,
    });
    expect(receiver.values).not.toHaveProperty(['shardwise.training.loss 1']);
  });

  it('sends every interval that the environment says', async () => {
    vi.stubEnv('OTEL_METRIC_EXPORT_INTERVAL', '20');
    const [open] = await loadSinks(['opentelemetry']);
    const sink = open?.('runs/gpt-1', () => {});
    await sink?.(step(1, { loss: 1 }));
    await expect.poll(() => receiver.requests.length).toBeGreaterThan(2);
    await sink?.close?.();
  });

  it('tells once that figures could not be sent', async () => {
    receiver.status = 400;
    const told: string[] = [];
    vi.stubEnv('OTEL_METRIC_EXPORT_INTERVAL', '20');
    const [open] = await loadSinks(['opentelemetry']);
    const sink = open?.('runs/gpt-1', (text) => told.push(text));
    await sink?.(step(1, { loss: 1 }));
    await expect.poll(() => told.length).toBeGreaterThan(0);
    receiver.status = 200;
    await expect.poll(() => receiver.requests.length).toBeGreaterThan(0);
    await sink?.close?.();
    expect(told).toEqual([
      expect.stringMatching(/^OpenTelemetry: figures could not be sent \(.*\)\. It is tried every/),
    ]);
  });

  it('tells what its packages do not understand of the environment', async () => {
    const told: string[] = [];
    vi.stubEnv('OTEL_EXPORTER_OTLP_METRICS_ENDPOINT', 'no address');
    await give([], told);
    expect(told).toEqual([expect.stringMatching(/OTEL_EXPORTER_OTLP_METRICS_ENDPOINT|no address/)]);
  });
});

describe('the sink of OpenTelemetry refuses', () => {
  it.each([
    [{ OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }, /OTEL_EXPORTER_OTLP_PROTOCOL=grpc.*http\/json/],
    [{ OTEL_EXPORTER_OTLP_METRICS_PROTOCOL: 'http/protobuf' }, /METRICS_PROTOCOL=http\/protobuf/],
    [{ OTEL_METRIC_EXPORT_INTERVAL: '1 min' }, /OTEL_METRIC_EXPORT_INTERVAL=1 min.*milliseconds/],
  ])('%o', async (environment, found) => {
    await expect(loadOpenTelemetry(environment)).rejects.toThrow(found);
  });
});
