import { stat, writeFile } from 'node:fs/promises';
import { ConfigError } from '@shardwise/core/extend';
import { stringify } from 'yaml';
import { DEFAULT_PORT } from './launch-file.ts';
import {
  answerTo,
  type Ask,
  choiceQuestion,
  countQuestion,
  textQuestion,
  yesNoQuestion,
} from './questions.ts';

export interface ConfigCommandOptions {
  readonly path: string;
  /** Whether the file gets the defaults, and nothing is asked. */
  readonly isDefault: boolean;
  /** Asks a person. Undefined: there is no terminal. */
  readonly ask: Ask | undefined;
}

/**
 * Asks how ranks are started and divide a model, and writes the YAML file of `accelerate config`. Returns what to do with it.
 * Throws ConfigError without a terminal, unless the defaults are asked for, and for a file that is there already and that
 * nobody wants to replace.
 */
export async function configCommand({
  path,
  isDefault,
  ask,
}: ConfigCommandOptions): Promise<string> {
  if (!isDefault && ask === undefined) {
    throw new ConfigError({
      asked: '`shardwise config`',
      found: 'no terminal to ask in',
      todo: 'Write --default to get a file with the defaults, and edit it',
    });
  }
  const asking = isDefault ? undefined : ask;
  const isThere = await stat(path).then(
    () => true,
    () => false,
  );
  if (isThere) {
    const replace = yesNoQuestion(`${path} is there already. Replace it?`, false);
    if (!(await answerTo(replace, asking))) {
      throw new ConfigError(
        {
          asked: `to write ${path}`,
          found: 'a file that is there already',
          todo: 'Remove it, or name another one with --config-file',
        },
        { path },
      );
    }
  }
  // PyYAML reads YAML 1.1, in which `no` is false without its quotes.
  await writeFile(path, stringify(await askForValues(asking), { version: '1.1' }));
  return [
    `Configuration: ${path}`,
    `Start with it:  npx shardwise run --config-file ${path} train.ts`,
    `Read it there:  new accelerate.Accelerator({ context, ...(await accelerate.readConfig('${path}')) })`,
  ].join('\n');
}

async function askForValues(ask: Ask | undefined): Promise<Readonly<Record<string, unknown>>> {
  const machines = await answerTo(countQuestion('How many machines', 1), ask);
  const place =
    machines === 1
      ? {}
      : {
          machine_rank: await answerTo(
            countQuestion(`Which of them is this, from 0 to ${machines - 1}`, 0, 0, machines - 1),
            ask,
          ),
          main_process_ip: await answerTo(
            textQuestion('Address of machine 0', 'a name or an address'),
            ask,
          ),
          main_process_port: await answerTo(
            countQuestion('Port of machine 0', DEFAULT_PORT, 1, 65_535),
            ask,
          ),
        };
  const ofEach = await answerTo(countQuestion('How many ranks on each machine', 1), ask);
  const strategies = ['DDP', 'ZeRO', 'FSDP'] as const;
  const strategy = await answerTo(choiceQuestion('How ranks divide the model', strategies), ask);
  // The scale of losses is a matter of the Accelerator with DDP.
  const precisions =
    strategy === 'DDP' ? (['no', 'bf16', 'fp16'] as const) : (['no', 'bf16'] as const);
  const precision = await answerTo(
    choiceQuestion<'no' | 'bf16' | 'fp16'>('Precision of products, or no for f32', precisions),
    ask,
  );
  const passes = await answerTo(countQuestion('How many passes of each update', 1), ask);
  const ranks = machines * ofEach;
  return {
    compute_environment: 'LOCAL_MACHINE',
    distributed_type: typeOf(strategy, ranks),
    ...(strategy === 'ZeRO' ? { deepspeed_config: await askForZero(ask) } : {}),
    ...(strategy === 'FSDP' ? { fsdp_config: await askForFsdp(ask) } : {}),
    mixed_precision: precision,
    ...(passes === 1 ? {} : { gradient_accumulation_steps: passes }),
    num_machines: machines,
    ...place,
    num_processes: ranks,
  };
}

function typeOf(strategy: 'DDP' | 'ZeRO' | 'FSDP', ranks: number): string {
  if (strategy === 'ZeRO') return 'DEEPSPEED';
  if (strategy === 'FSDP') return 'FSDP';
  return ranks === 1 ? 'NO' : 'MULTI_CPU';
}

async function askForZero(ask: Ask | undefined): Promise<object> {
  const stages = ['2', '1', '3'] as const;
  const stage = await answerTo(choiceQuestion('Stage of ZeRO', stages), ask);
  return { zero_stage: Number(stage) };
}

async function askForFsdp(ask: Ask | undefined): Promise<object> {
  const reshards = yesNoQuestion('Free the gathered parameters after the forward pass', true);
  const offloads = yesNoQuestion('Keep parameters in the memory of the host', false);
  return {
    fsdp_version: 2,
    fsdp_reshard_after_forward: await answerTo(reshards, ask),
    fsdp_offload_params: await answerTo(offloads, ask),
  };
}
