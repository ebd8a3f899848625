import type * as Api from '@opentelemetry/api';
import type * as Exporter from '@opentelemetry/exporter-metrics-otlp-http';
import type * as Resources from '@opentelemetry/resources';
import type * as Sdk from '@opentelemetry/sdk-metrics';
import { basename } from 'node:path';
import { ConfigError } from '@shardwise/core/extend';
import { packageVersion } from '../text/package-version.ts';
import type { MetricSink, OpenSink } from './metric-sink.ts';
import { openTelemetryInstruments } from './opentelemetry-instruments.ts';

interface Packages {
  readonly api: typeof Api;
  readonly exporter: typeof Exporter;
  readonly resources: typeof Resources;
  readonly sdk: typeof Sdk;
}

/** The default of OpenTelemetry. */
const INTERVAL_MS = 60_000;
/** How long sending may take, with repetitions. The end of a run waits for the last figures for this long. */
const SEND_MS = 5000;

/**
 * Loads the sink that sends figures by OTLP, as JSON over HTTP, to where the variables of OpenTelemetry say. Throws
 * ConfigError if a package is missing, and for variables that ask for what it does not do.
 */
export async function loadOpenTelemetry(environment: NodeJS.ProcessEnv): Promise<OpenSink> {
  checkProtocol(environment);
  const intervalMs = intervalOf(environment);
  const packages = await loadPackages();
  return (directory, onNotice) => openSink(packages, intervalMs, directory, onNotice);
}

function openSink(
  packages: Packages,
  intervalMs: number,
  directory: string,
  onNotice: (text: string) => void,
): MetricSink {
  const { sdk } = packages;
  const exporter = createExporter(packages, onNotice);
  const reader = new sdk.PeriodicExportingMetricReader({
    exporter: tellingExporter(exporter, (reason) =>
      onNotice(
        `OpenTelemetry: figures could not be sent (${reason}). It is tried every ${intervalMs / 1000} s, and told once.`,
      ),
    ),
    exportIntervalMillis: intervalMs,
  });
  const provider = new sdk.MeterProvider({
    resource: resourceOf(packages, basename(directory)),
    readers: [reader],
  });
  const record = openTelemetryInstruments(provider.getMeter('shardwise', packageVersion()));
  return Object.assign(record, { close: () => provider.shutdown() });
}

/** What the packages say of variables that they do not understand would otherwise be lost. */
function createExporter(
  { api, exporter }: Packages,
  onNotice: (text: string) => void,
): Exporter.OTLPMetricExporter {
  const tell = (text: string): void => onNotice(`OpenTelemetry: ${text}`);
  const ignore = (): void => {};
  const logger = { error: tell, warn: tell, info: ignore, debug: ignore, verbose: ignore };
  api.diag.setLogger(logger, api.DiagLogLevel.WARN);
  try {
    const isGiven = ['OTEL_EXPORTER_OTLP_METRICS_TIMEOUT', 'OTEL_EXPORTER_OTLP_TIMEOUT'].some(
      (name) => process.env[name],
    );
    return new exporter.OTLPMetricExporter(isGiven ? {} : { timeoutMillis: SEND_MS });
  } finally {
    api.diag.disable();
  }
}

/** An exporter that tells once why it could not send. */
function tellingExporter(
  exporter: Exporter.OTLPMetricExporter,
  onFailure: (reason: string) => void,
): Sdk.PushMetricExporter {
  let isTold = false;
  return {
    export: (metrics, done) =>
      exporter.export(metrics, (result) => {
        if (result.error !== undefined && !isTold) {
          isTold = true;
          onFailure(result.error.message);
        }
        done(result);
      }),
    forceFlush: () => exporter.forceFlush(),
    shutdown: () => exporter.shutdown(),
    selectAggregation: (kind) => exporter.selectAggregation(kind),
    selectAggregationTemporality: (kind) => exporter.selectAggregationTemporality(kind),
  };
}

/** The run is one instance of a service. The user's own attributes come first. */
function resourceOf({ resources }: Packages, run: string): Resources.Resource {
  const own = resources.resourceFromAttributes({
    'service.name': 'shardwise',
    'service.version': packageVersion(),
    'service.instance.id': run,
  });
  const given = resources.detectResources({ detectors: [resources.envDetector] });
  return resources.defaultResource().merge(own).merge(given);
}

function checkProtocol(environment: NodeJS.ProcessEnv): void {
  const names = ['OTEL_EXPORTER_OTLP_METRICS_PROTOCOL', 'OTEL_EXPORTER_OTLP_PROTOCOL'];
  const name = names.find((each) => environment[each]);
  const protocol = name === undefined ? undefined : environment[name];
  if (name === undefined || protocol === 'http/json') return;
  throw new ConfigError(
    {
      asked: '--metrics opentelemetry',
      found: `${name}=${protocol}, and figures are sent as http/json`,
      todo: 'Set OTEL_EXPORTER_OTLP_METRICS_PROTOCOL=http/json, and an endpoint that takes it, such as port 4318 of a collector',
    },
    { protocol },
  );
}

function intervalOf(environment: NodeJS.ProcessEnv): number {
  const name = 'OTEL_METRIC_EXPORT_INTERVAL';
  const text = environment[name];
  if (text === undefined || text === '') return INTERVAL_MS;
  if (/^\d{1,9}$/.test(text) && Number(text) > 0) return Number(text);
  throw new ConfigError(
    {
      asked: '--metrics opentelemetry',
      found: `${name}=${text}`,
      todo: 'Give a whole number of milliseconds, or leave it out for 60000',
    },
    { [name]: text },
  );
}

async function loadPackages(): Promise<Packages> {
  try {
    const [api, exporter, resources, sdk] = await Promise.all([
      import('@opentelemetry/api'),
      import('@opentelemetry/exporter-metrics-otlp-http'),
      import('@opentelemetry/resources'),
      import('@opentelemetry/sdk-metrics'),
    ]);
    return { api, exporter, resources, sdk };
  } catch (cause) {
    throw new ConfigError(
      {
        asked: '--metrics opentelemetry',
        found: `its packages are not all there (${cause instanceof Error ? cause.message : String(cause)})`,
        todo: 'npm install @opentelemetry/api @opentelemetry/sdk-metrics @opentelemetry/resources @opentelemetry/exporter-metrics-otlp-http',
      },
      {},
      { cause },
    );
  }
}
