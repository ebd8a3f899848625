import { stat } from 'node:fs/promises';
import { ConfigError } from '@shardwise/core/spec';
import { z } from 'zod';
import type { LaunchFile } from '../accelerate/launch-file.ts';
import { withTerminal } from '../accelerate/with-terminal.ts';
import { blameCommand } from '../blame/blame-command.ts';
import { exportModel, exportDTypes } from '../checkpoint/single-file/export-model.ts';
import { doctorCommand } from '../doctor/doctor-command.ts';
import { deviceNames } from '../environment/device-name.ts';
import type { ServeOptions } from '../serve/serve-options.ts';
import { type RunPlace, topCommand } from '../top/top-command.ts';
import { verifyCommand } from '../verify/verify-command.ts';
import { estimateMemory } from './estimate-memory.ts';
import { findScript } from './find-script.ts';
import { parseEndpoint } from './parse-values.ts';
import { runCommand } from './run-command.ts';

// The commands with the options that commander has read.

const optionsSchema = z.object({
  nproc: z.number().optional(),
  minNproc: z.number().optional(),
  device: z.enum(deviceNames).optional(),
  servers: z.number().optional(),
  serverReplicas: z.number().optional(),
  serverSnapshots: z.number().optional(),
  workerRestarts: z.number().optional(),
  transport: z.string().min(1).max(4096).optional(),
  transportTimeout: z.number().optional(),
  ranks: z.enum(['threads', 'processes']).optional(),
  nnodes: z.object({ min: z.number(), max: z.number() }).optional(),
  nodeRank: z.number().optional(),
  rdzv: z.object({ host: z.string(), port: z.number() }).optional(),
  rdzvId: z.string().min(1).max(255).optional(),
  maxRestarts: z.number().optional(),
  secretFile: z.string().optional(),
  joinTimeout: z.number().optional(),
  lastCall: z.number().optional(),
  runDir: z.string().optional(),
  checkpointDir: z.string().min(1).max(4096).optional(),
  resume: z.string().optional(),
  metrics: z.array(z.string().min(1).max(4096)).max(64),
  configFile: z.string().min(1).max(4096).optional(),
  plan: z.string().min(1).max(4096).optional(),
  profileSteps: z.tuple([z.number(), z.number()]).optional(),
  report: z.boolean(),
  plain: z.boolean(),
});

const blameOptionsSchema = z.object({ json: z.boolean() });

/** Runs `shardwise run` and returns the exit code. */
export async function runByOptions(
  script: string,
  args: readonly string[],
  raw: unknown,
): Promise<number> {
  const parsed = optionsSchema.parse(raw);
  const file = parsed.configFile === undefined ? undefined : await launchFile(parsed.configFile);
  return runCommand({
    script,
    args,
    nproc: parsed.nproc ?? file?.nproc,
    minNproc: parsed.minNproc,
    device: parsed.device,
    servers: parsed.servers,
    serverReplicas: parsed.serverReplicas,
    snapshotEveryMs: parsed.serverSnapshots,
    workerRestarts: parsed.workerRestarts,
    transport: parsed.transport,
    transportTimeoutMs: parsed.transportTimeout,
    ranks: parsed.ranks,
    nodes: parsed.nnodes ?? (file === undefined ? undefined : nodesOf(file)),
    nodeRank: parsed.nodeRank ?? file?.nodeRank,
    rendezvous: parsed.rdzv ?? file?.rendezvous,
    jobId: parsed.rdzvId,
    maxRestarts: parsed.maxRestarts,
    secretFile: parsed.secretFile,
    joinTimeoutMs: parsed.joinTimeout,
    lastCallMs: parsed.lastCall,
    runDirectory: parsed.runDir,
    checkpointDirectory: parsed.checkpointDir,
    resumeDirectory: parsed.resume,
    metrics: parsed.metrics,
    plan: parsed.plan,
    profileSteps: parsed.profileSteps,
    report: parsed.report,
    plain: parsed.plain,
  });
}

/** Reads a file of `accelerate config`, and says what the script must read of it. Throws ConfigError. */
async function launchFile(path: string): Promise<LaunchFile> {
  // Few runs need the parser of YAML.
  const { readLaunchFile } = await import('../accelerate/launch-file.ts');
  const file = await readLaunchFile(path);
  if (file.asksScript) {
    process.stderr.write(
      `--config-file starts the ranks. Its precision and strategy are for the script, which reads them by accelerate.readConfig('${path}') of @shardwise/compat.\n`,
    );
  }
  return file;
}

/** Undefined for one host, which meets no others. */
function nodesOf({ hosts }: LaunchFile): { min: number; max: number } | undefined {
  return hosts === 1 ? undefined : { min: hosts, max: hosts };
}

const configSchema = z.object({ configFile: z.string().min(1).max(4096), default: z.boolean() });

/** Runs `shardwise config`. Throws the errors of configCommand. */
export async function configByOptions(raw: unknown): Promise<void> {
  const { configFile: path, default: isDefault } = configSchema.parse(raw);
  const { configCommand } = await import('../accelerate/config-command.ts');
  await withTerminal(async (ask) => {
    const text = await configCommand({ path, isDefault, ask });
    process.stdout.write(`${text}\n`);
  });
}

/** Runs `shardwise blame` and returns the exit code. */
export async function blameByOptions(paths: readonly string[], raw: unknown): Promise<number> {
  return blameCommand(paths, blameOptionsSchema.parse(raw));
}

/** The options of `shardwise doctor` that it gives to `shardwise run` as they are, with their names there. */
const linkOptions = {
  nproc: '--nproc',
  ranks: '--ranks',
  transport: '--transport',
  nnodes: '--nnodes',
  nodeRank: '--node-rank',
  rdzv: '--rdzv',
  rdzvId: '--rdzv-id',
  secretFile: '--secret-file',
  joinTimeout: '--join-timeout',
} as const;

const doctorSchema = z.object({ json: z.boolean(), page: z.string().optional() });
const linkTexts = z.record(z.string(), z.unknown());

/** Runs `shardwise doctor`. `main` is the file of the command. */
export async function doctorByOptions(main: string, raw: unknown): Promise<void> {
  const { json, page } = doctorSchema.parse(raw);
  const texts = linkTexts.parse(raw);
  const runOptions = Object.entries(linkOptions).flatMap(([key, name]) => {
    const text = texts[key];
    return typeof text === 'string' ? [name, text] : [];
  });
  await doctorCommand({ json, page, main, runOptions });
}

const profileSchema = z.object({
  nproc: z.number().optional(),
  device: z.enum(deviceNames).optional(),
  ranks: z.enum(['threads', 'processes']).optional(),
  steps: z.tuple([z.number(), z.number()]),
  runDir: z.string().optional(),
  resume: z.string().optional(),
  plain: z.boolean(),
});

/** Runs `shardwise profile` and returns the exit code. */
export async function profileByOptions(
  script: string,
  args: readonly string[],
  raw: unknown,
): Promise<number> {
  const { steps, ...own } = profileSchema.parse(raw);
  return runByOptions(script, args, { ...own, profileSteps: steps, metrics: [], report: true });
}

const topSchema = z.object({
  once: z.boolean(),
  json: z.boolean(),
  page: z.string().min(1).optional(),
  secretFile: z.string().optional(),
});

/** Runs `shardwise top`. Throws the errors of topCommand. */
export async function topByOptions(run: string | undefined, raw: unknown): Promise<void> {
  const { once, json, page, secretFile } = topSchema.parse(raw);
  await topCommand({ place: await placeOf(run), once, json, page, secretFile });
}

/** Tells a directory from an address, which has a port. A directory that exists is one. */
async function placeOf(run: string | undefined): Promise<RunPlace> {
  if (run === undefined) return { kind: 'latest' };
  if (/^(?:ws|http)s?:\/\//.test(run) && URL.canParse(run)) {
    return { kind: 'members', url: new URL(run) };
  }
  const isDirectory = await stat(run).then(
    (found) => found.isDirectory(),
    () => false,
  );
  return isDirectory || !/:\d{1,5}$/.test(run)
    ? { kind: 'directory', path: run }
    : { kind: 'hosts', ...parseEndpoint(run) };
}

const verifySchema = z.object({ nproc: z.number(), steps: z.number(), json: z.boolean() });

/** Runs `shardwise verify` and returns the exit code. */
export async function verifyByOptions(
  script: string,
  args: readonly string[],
  raw: unknown,
): Promise<number> {
  const path = await findScript(script, `to verify ${script}`);
  return verifyCommand({ script: path, args, ...verifySchema.parse(raw) });
}

const estimateSchema = z.object({
  nproc: z.number(),
  nnodes: z.number(),
  dtype: z.enum(exportDTypes),
  json: z.boolean(),
});

/** Runs `shardwise estimate-memory`. Throws the errors of estimateMemory. */
export async function estimateByOptions(model: string, raw: unknown): Promise<void> {
  const { nproc, nnodes, dtype, json } = estimateSchema.parse(raw);
  const precision = dtype === 'f32' ? 'single' : 'half';
  await estimateMemory(model, { nodes: nnodes, ranksPerNode: nproc, precision, json });
}

const planSchema = z.object({
  model: z.string().min(1).max(4096),
  cluster: z.string().min(1).max(4096),
  batch: z.number(),
  sequence: z.number().optional(),
  memory: z.number().optional(),
  goal: z.enum(['time', 'memory', 'money']),
  dtype: z.enum(['mixed', 'f32']),
  top: z.number(),
  json: z.boolean(),
  page: z.string().min(1).max(4096).optional(),
  trace: z.string().min(1).max(4096).optional(),
});

/** Runs `shardwise plan` and returns the exit code. Throws the errors of planCommand. */
export async function planByOptions(raw: unknown): Promise<number> {
  const { dtype: precision, top: keep, ...options } = planSchema.parse(raw);
  // The planner reads the configs of all architectures, which other commands need not load.
  const { planCommand } = await import('../plan/plan-command.ts');
  return planCommand({
    ...options,
    precision,
    keep,
    sequence: options.sequence,
    memory: options.memory,
    page: options.page,
    trace: options.trace,
  });
}

const measureSchema = z.object({ nproc: z.number(), trace: z.string().optional() });

/** Runs `shardwise measure`. `main` is the file of the command. Throws the errors of measureCommand. */
export async function measureByOptions(main: string, file: string, raw: unknown): Promise<void> {
  const { nproc: ranks, trace } = measureSchema.parse(raw);
  const { measureCommand } = await import('../plan/measure-command.ts');
  await measureCommand({ file, ranks, main, trace });
}

const serveSchema = z.object({
  port: z.number(),
  host: z.string().min(1).max(255),
  apiKey: z.array(z.string()),
  withoutApiKey: z.boolean(),
  servedModelName: z.string().min(1).max(255).optional(),
  device: z.enum(deviceNames).optional(),
  threads: z.number().optional(),
  dtype: z.enum(exportDTypes),
  quantized: z.boolean(),
  kvCacheDtype: z.enum(['auto', 'float16', 'bfloat16', 'int8']),
  loraModules: z.array(z.string()),
  preemption: z.enum(['recompute', 'swap']),
  swapSpace: z.number().optional(),
  cacheTokens: z.number().optional(),
  blockSize: z.number(),
  maxSequences: z.number(),
  maxChunkTokens: z.number(),
  speculativeTokens: z.number().optional(),
  nproc: z.number(),
  tensorParallelSize: z.number(),
  onRankFailure: z.enum(['error', 'retry']),
  reload: z.string().min(1).optional(),
  reloadInterval: z.number().optional(),
  reloadRequests: z.enum(['recompute', 'finish']).optional(),
  maxWaiting: z.number(),
  requestTimeout: z.number().default(600_000),
  drainTimeout: z.number().default(30_000),
});

/** Runs `shardwise serve` and returns the exit code. Throws the errors of startServing. */
export async function serveByOptions(model: string, raw: unknown): Promise<number> {
  const options = serveSchema.parse(raw);
  // Models, tokenizers and the server are much code, which other commands need not load.
  const { serveCommand } = await import('./serve-command.ts');
  return serveCommand({
    ...options,
    model,
    name: options.servedModelName,
    apiKeys: options.apiKey,
    device: options.device,
    threads: options.threads,
    loraModules: options.loraModules,
    swapSpace: options.swapSpace,
    cacheTokens: options.cacheTokens,
    speculativeTokens: options.speculativeTokens,
    reload: reloadOf(options),
    requestTimeoutMs: options.requestTimeout,
    drainTimeoutMs: options.drainTimeout,
  });
}

/** Throws ConfigError for the way of taking weights without their place. */
function reloadOf({
  reload,
  reloadInterval,
  reloadRequests,
}: z.infer<typeof serveSchema>): ServeOptions['reload'] {
  if (reload !== undefined) {
    const [everyMs, inFlight] = [reloadInterval ?? 5_000, reloadRequests ?? 'recompute'];
    return { place: reload, everyMs, inFlight };
  }
  if (reloadInterval === undefined && reloadRequests === undefined) return undefined;
  throw new ConfigError({
    asked: '--reload-interval or --reload-requests',
    found: 'no --reload',
    todo: 'Name the folder of a run with --reload, or leave these out',
  });
}

const coordinateSchema = z.object({
  port: z.number(),
  host: z.string().min(1).max(255),
  tokenFile: z.string().min(1).max(4096).optional(),
  maxMembers: z.number(),
  roundTimeout: z.number().default(60_000),
  audit: z.number().default(0),
  maxRate: z.number().default(32_000_000),
});

/** Runs `shardwise coordinate`. Throws the errors of coordinateCommand. */
export async function coordinateByOptions(raw: unknown): Promise<void> {
  const { roundTimeout, tokenFile, ...options } = coordinateSchema.parse(raw);
  const { coordinateCommand } = await import('./coordinate-command.ts');
  await coordinateCommand({ ...options, tokenFile, roundTimeoutMs: roundTimeout });
}

const exportSchema = z.object({
  dtype: z.enum(exportDTypes).optional(),
  metadata: z.record(z.string(), z.string()),
});

/** Exports the model of a checkpoint. Throws the errors of exportModel. */
export async function exportByOptions(
  checkpoint: string,
  file: string,
  raw: unknown,
): Promise<void> {
  const { dtype, metadata } = exportSchema.parse(raw);
  await exportModel(checkpoint, file, dtype === undefined ? { metadata } : { dtype, metadata });
}
