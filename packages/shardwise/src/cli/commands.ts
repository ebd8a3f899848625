import { z } from 'zod';
import { blameCommand } from '../blame/blame-command.ts';
import { exportModel, exportDTypes } from '../checkpoint/single-file/export-model.ts';
import { deviceNames } from '../environment/device-name.ts';
import { runCommand } from './run-command.ts';

// The commands with the options that commander has read.

const optionsSchema = z.object({
  nproc: z.number().optional(),
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
  resume: z.string().optional(),
  metrics: z.array(z.string().min(1).max(4096)).max(64),
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
  return runCommand({
    script,
    args,
    nproc: parsed.nproc,
    device: parsed.device,
    servers: parsed.servers,
    serverReplicas: parsed.serverReplicas,
    snapshotEveryMs: parsed.serverSnapshots,
    workerRestarts: parsed.workerRestarts,
    transport: parsed.transport,
    transportTimeoutMs: parsed.transportTimeout,
    ranks: parsed.ranks,
    nodes: parsed.nnodes,
    nodeRank: parsed.nodeRank,
    rendezvous: parsed.rdzv,
    jobId: parsed.rdzvId,
    maxRestarts: parsed.maxRestarts,
    secretFile: parsed.secretFile,
    joinTimeoutMs: parsed.joinTimeout,
    lastCallMs: parsed.lastCall,
    runDirectory: parsed.runDir,
    resumeDirectory: parsed.resume,
    metrics: parsed.metrics,
    report: parsed.report,
    plain: parsed.plain,
  });
}

/** Runs `shardwise blame` and returns the exit code. */
export async function blameByOptions(paths: readonly string[], raw: unknown): Promise<number> {
  return blameCommand(paths, blameOptionsSchema.parse(raw));
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
