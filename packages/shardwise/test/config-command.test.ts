import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { configCommand } from '../src/accelerate/config-command.ts';
import { readLaunchFile } from '../src/accelerate/launch-file.ts';

let path = '';
beforeEach(async () => {
  path = join(await mkdtemp(join(tmpdir(), 'config-')), 'default_config.yaml');
});

/** Answers one question after the other, and keeps the prompts. */
function person(answers: readonly string[]): {
  ask: (prompt: string) => Promise<string>;
  prompts: string[];
} {
  const left = [...answers];
  const prompts: string[] = [];
  return {
    prompts,
    ask: async (prompt) => {
      prompts.push(prompt);
      return left.shift() ?? expect.fail(`no answer to ${prompt}`);
    },
  };
}

async function fileOf(answers: readonly string[]): Promise<string> {
  await configCommand({ path, isDefault: false, ask: person(answers).ask });
  return readFile(path, 'utf8');
}

describe('shardwise config', () => {
  it('writes the defaults without a question', async () => {
    const text = await configCommand({ path, isDefault: true, ask: undefined });
    expect(await readFile(path, 'utf8')).toBe(
      [
        'compute_environment: LOCAL_MACHINE',
        // Python would read words without quotes as false.
        'distributed_type: "NO"',
        'mixed_precision: "no"',
        'num_machines: 1',
        'num_processes: 1',
        '',
      ].join('\n'),
    );
    expect(text).toContain(`npx shardwise run --config-file ${path} train.ts`);
  });

  it('takes the defaults for empty lines, which prompts show', async () => {
    const { ask, prompts } = person(['', '4', '', '', '']);
    await configCommand({ path, isDefault: false, ask });
    expect(prompts).toEqual([
      'How many machines [1]: ',
      'How many ranks on each machine [1]: ',
      'How ranks divide the model (DDP, ZeRO, FSDP) [DDP]: ',
      'Precision of products, or no for f32 (no, bf16, fp16) [no]: ',
      'How many passes of each update [1]: ',
    ]);
    expect(await readFile(path, 'utf8')).toContain('distributed_type: MULTI_CPU\n');
  });

  it('asks again after an answer that is none', async () => {
    const { ask, prompts } = person(['many', '0', '1', '2', 'ddp', 'f8', 'BF16', '']);
    await configCommand({ path, isDefault: false, ask });
    expect(prompts.slice(0, 3)).toEqual([
      'How many machines [1]: ',
      'Please give a whole number of 1 or more [1]: ',
      'Please give a whole number of 1 or more [1]: ',
    ]);
    expect(prompts).toContain('Please give one of no, bf16, fp16 [no]: ');
    expect(await readFile(path, 'utf8')).toContain('mixed_precision: bf16\n');
  });

  it('asks where the machines meet, if there are several', async () => {
    const text = await fileOf(['2', '2', '1', 'node-0', '', '4', 'zero', '', '', '3']);
    expect(text).toContain('deepspeed_config:\n  zero_stage: 3\n');
    expect(await readLaunchFile(path)).toEqual({
      nproc: 4,
      hosts: 2,
      nodeRank: 1,
      rendezvous: { host: 'node-0', port: 29500 },
      asksScript: true,
    });
  });

  it('asks what FSDP does', async () => {
    const text = await fileOf(['', '2', 'FSDP', 'bf16', '4', 'no', 'y']);
    expect(text).toContain('gradient_accumulation_steps: 4\n');
    expect(text).toContain('fsdp_reshard_after_forward: false\n  fsdp_offload_params: true\n');
  });

  it('refuses to ask without a terminal, and says what to do', async () => {
    await expect(configCommand({ path, isDefault: false, ask: undefined })).rejects.toThrow(
      'no terminal to ask in. Write --default',
    );
  });

  it('replaces no file unless it is told to', async () => {
    await writeFile(path, 'debug: true\n');
    await expect(configCommand({ path, isDefault: true, ask: undefined })).rejects.toThrow(
      /is there already.*--config-file/,
    );
    await expect(fileOf([''])).rejects.toThrow(/is there already/);
    expect(await readFile(path, 'utf8')).toBe('debug: true\n');
    expect(await fileOf(['yes', '', '', '', '', ''])).toContain('num_processes: 1');
  });
});

describe('a file of accelerate config', () => {
  const read = async (text: string) => {
    await writeFile(path, text);
    return readLaunchFile(path);
  };

  it('starts the ranks of one machine, and leaves the rest to the script', async () => {
    expect(await read('num_processes: 3\nmixed_precision: bf16\nmain_process_port: 1\n')).toEqual({
      nproc: 3,
      hosts: 1,
      nodeRank: undefined,
      rendezvous: undefined,
      asksScript: true,
    });
    expect(await read("{ distributed_type: 'NO' }")).toMatchObject({ asksScript: false });
  });

  it.each([
    ['num_proceses: 3', /num_proceses of .*no such key.*Write num_processes/],
    ['num_processes: many', /num_processes of /],
    ['num_processes: 3\nnum_machines: 2\nmain_process_ip: a', /3 ranks of 2 machines together/],
    ['num_processes: 4\nnum_machines: 2', /main_process_ip of .*no address/],
    ['num_processes: 1\nnum_processes: 2', /Map keys must be unique.*line 2/],
    ['num_processes: [1', /the configuration .*line/],
    ['hello', /"hello", and no keys/],
    ['', /found nothing|nothing/],
  ])('%j is refused with what is wrong', async (text, message) => {
    await expect(read(text)).rejects.toThrow(message);
  });

  it('must be there', async () => {
    await expect(readLaunchFile(path)).rejects.toThrow(/no such file.*shardwise config/);
  });
});
