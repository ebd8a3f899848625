import { readFile } from 'node:fs/promises';
import { ConfigError, nearestName } from '@shardwise/core/extend';
import { parseDocument } from 'yaml';
import { z } from 'zod';

/** The keys of the file of `accelerate config` that say how ranks are started. */
const launchKeys = [
  'num_processes',
  'num_machines',
  'machine_rank',
  'main_process_ip',
  'main_process_port',
] as const;

/** The other keys, which `accelerate.readConfig` of @shardwise/compat reads in the script. */
const scriptKeys =
  `compute_environment distributed_type mixed_precision gradient_accumulation_steps fsdp_config deepspeed_config
main_training_function gpu_ids rdzv_backend same_network use_cpu debug enable_cpu_affinity downcast_bf16 tpu_env tpu_use_cluster
tpu_use_sudo commands command_file mpirun_config dynamo_config dynamo_backend fp8_config megatron_lm_config
parallelism_config`.split(/\s+/);

const count = z.int().positive();
const fileSchema = z.object({
  num_processes: count.nullish(),
  num_machines: count.default(1),
  machine_rank: z.int().nonnegative().nullish(),
  main_process_ip: z.string().min(1).nullish(),
  main_process_port: z.int().min(1).max(65535).nullish(),
  distributed_type: z.string().default('NO'),
  mixed_precision: z.string().nullish(),
});

/** How a file of `accelerate config` starts ranks. */
export interface LaunchFile {
  /** The number of ranks of each host. Undefined if the file does not say it. */
  readonly nproc: number | undefined;
  readonly hosts: number;
  readonly nodeRank: number | undefined;
  readonly rendezvous: { readonly host: string; readonly port: number } | undefined;
  /** Whether the file also says something that only the script can do. */
  readonly asksScript: boolean;
}

/** The port of torch.distributed, which accelerate takes if there is none. */
export const DEFAULT_PORT = 29500;
/** The longest text that is read. */
const MOST_CHARACTERS = 1024 * 1024;

/** Reads the YAML file of `accelerate config`. Throws ConfigError with the key. */
export async function readLaunchFile(path: string): Promise<LaunchFile> {
  const values = await valuesOf(path);
  const unknown = Object.keys(values).find(
    (key) => !launchKeys.some((each) => each === key) && !scriptKeys.includes(key),
  );
  if (unknown !== undefined) {
    const nearest = nearestName(unknown, [...launchKeys, ...scriptKeys]);
    const todo = nearest === undefined ? 'Remove it' : `Write ${nearest}, or remove it`;
    throw refused(path, unknown, 'no such key', todo);
  }
  const parsed = fileSchema.safeParse(values);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const key = issue?.path.join('.') ?? '';
    throw refused(path, key, issue?.message ?? '', 'Give a value of this kind');
  }
  const { num_processes: ranks, num_machines: hosts, machine_rank: place } = parsed.data;
  const { main_process_ip: host, main_process_port: port, distributed_type: type } = parsed.data;
  const perHost = (ranks ?? hosts) / hosts;
  if (!Number.isInteger(perHost)) {
    throw refused(
      path,
      'num_processes',
      `${ranks} ranks of ${hosts} machines together, which have equally many`,
      'Give a multiple of num_machines',
    );
  }
  if (hosts > 1 && (host === undefined || host === null)) {
    throw refused(path, 'main_process_ip', 'no address', 'Give the one of machine 0');
  }
  return {
    nproc: ranks === undefined || ranks === null ? undefined : perHost,
    hosts,
    nodeRank: hosts > 1 ? (place ?? undefined) : undefined,
    rendezvous:
      hosts > 1 && host !== undefined && host !== null
        ? { host, port: port ?? DEFAULT_PORT }
        : undefined,
    asksScript:
      ['FSDP', 'DEEPSPEED'].includes(type) || (parsed.data.mixed_precision ?? 'no') !== 'no',
  };
}

async function valuesOf(path: string): Promise<object> {
  const asked = `the configuration ${path}`;
  const text = await readFile(path, 'utf8').catch((cause: unknown) => {
    const found = cause instanceof Error ? cause.message : String(cause);
    const todo = 'Name a file that `shardwise config` or `accelerate config` wrote';
    throw new ConfigError({ asked, found, todo }, { path }, { cause });
  });
  if (text.length > MOST_CHARACTERS) {
    const found = `${text.length} characters, where at most ${MOST_CHARACTERS} are read`;
    throw new ConfigError({ asked, found, todo: 'Name a file of settings' }, { path });
  }
  const document = parseDocument(text, { uniqueKeys: true });
  const [error] = document.errors;
  if (error !== undefined) {
    const [found = ''] = error.message.split('\n');
    throw new ConfigError({ asked, found, todo: 'Correct the file there' }, { path });
  }
  const value: unknown = document.toJS({ maxAliasCount: 100 });
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
  const found = value === null ? 'nothing' : `${JSON.stringify(value).slice(0, 60)}, and no keys`;
  throw new ConfigError(
    { asked, found, todo: 'Name a file that `shardwise config` or `accelerate config` wrote' },
    { path },
  );
}

function refused(path: string, key: string, found: string, todo: string): ConfigError {
  return new ConfigError({ asked: `${key} of ${path}`, found, todo }, { path: key });
}
