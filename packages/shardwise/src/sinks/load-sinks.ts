import { appendFile, rename, writeFile } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { ConfigError } from '@shardwise/core/extend';
import type { MetricSink, OpenSink, StepFigures } from './metric-sink.ts';
import { prometheusText } from './prometheus-text.ts';
import { EventFile } from './summary-writer.ts';

/** The sinks that have a name. */
const named: Readonly<Record<string, () => OpenSink | Promise<OpenSink>>> = {
  csv: () => csvSink,
  opentelemetry: async () => {
    const { loadOpenTelemetry } = await import('./opentelemetry.ts');
    return loadOpenTelemetry(process.env);
  },
  prometheus: () => prometheusSink,
  tensorboard: () => tensorboardSink,
};

/**
 * Loads the sinks of a run: names, and paths of modules whose default export is a sink. Throws ConfigError for a module
 * that does not load or exports no function.
 */
export async function loadSinks(sinks: readonly string[]): Promise<readonly OpenSink[]> {
  return Promise.all(
    sinks.map(async (sink) => {
      const own = Object.hasOwn(named, sink) ? named[sink] : undefined;
      if (own !== undefined) return own();
      const ofModule = await moduleSink(sink);
      return () => ofModule;
    }),
  );
}

async function moduleSink(path: string): Promise<MetricSink> {
  const todo = `Give ${Object.keys(named).join(', ')}, or the path of a module whose default export is a function`;
  let made: unknown;
  try {
    made = await import(pathToFileURL(resolve(path)).href);
  } catch (cause) {
    throw new ConfigError({ asked: `metrics for ${path}`, found: String(cause), todo }, { path });
  }
  const sink: unknown =
    typeof made === 'object' && made !== null && 'default' in made ? made.default : undefined;
  if (typeof sink === 'function') {
    const close: unknown = 'close' in sink ? sink.close : undefined;
    return Object.assign(
      async (step: StepFigures) => {
        await sink(step);
      },
      typeof close === 'function' ? { close: async () => void (await close()) } : {},
    );
  }
  throw new ConfigError(
    { asked: `metrics for ${path}`, found: 'no function as its default export', todo },
    { path },
  );
}

/** `metrics.csv`: a row for each figure of each step, because steps have different figures. */
function csvSink(directory: string): MetricSink {
  const path = join(directory, 'metrics.csv');
  let isBegun = false;
  return async ({ step, endMs, figures }) => {
    const rows = Object.entries(figures).map(
      ([name, value]) => `${step},${endMs},${csvField(name)},${value}\n`,
    );
    const head = isBegun ? '' : 'step,endMs,name,value\n';
    await (isBegun ? appendFile : writeFile)(path, head + rows.join(''));
    isBegun = true;
  };
}

function csvField(text: string): string {
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** `metrics.prom`: the last figures. The file is replaced as a whole, so that no reader sees a part of it. */
function prometheusSink(directory: string): MetricSink {
  const path = join(directory, 'metrics.prom');
  return async (step) => {
    await writeFile(`${path}.tmp`, prometheusText(basename(directory), step));
    await rename(`${path}.tmp`, path);
  };
}

/** An event file, which TensorBoard shows with `tensorboard --logdir` of the directory or of one above it. */
function tensorboardSink(directory: string): MetricSink {
  const file = new EventFile(directory);
  return ({ step, endMs, figures }) => file.write(endMs / 1000, step, figures);
}
