import { createRequire } from 'node:module';
import { ShardwiseError } from '@shardwise/core';
import { Command, CommanderError, InvalidArgumentError } from 'commander';
import { z } from 'zod';
import { blameCommand } from '../blame/blame-command.ts';
import { exportModel } from '../checkpoint/export-model.ts';
import { runCommand } from './run-command.ts';

/** A command line that asks for what is not there. */
const USAGE_EXIT_CODE = 2;

const optionsSchema = z.object({
  nproc: z.number(),
  runDir: z.string().optional(),
  resume: z.string().optional(),
  report: z.boolean(),
  plain: z.boolean(),
});

const blameOptionsSchema = z.object({ json: z.boolean() });

/** The `shardwise` command. `argv` as process.argv; returns the exit code. */
export async function runCli(argv: readonly string[]): Promise<number> {
  let exitCode = 0;
  const program = new Command('shardwise')
    .description('Distributed deep-learning training for TypeScript')
    .version(packageVersion())
    .enablePositionalOptions()
    .exitOverride()
    .configureOutput({ outputError: () => undefined });
  program
    .command('run')
    .description('run a training script on several ranks of this machine')
    .argument('<script>', 'the script that every rank runs, TypeScript or JavaScript')
    .argument('[arguments...]', "the script's own arguments")
    .option('-n, --nproc <count>', 'number of ranks', parseRanks, 1)
    .option(
      '--run-dir <directory>',
      'where logs, report and checkpoints go (default: runs/NAME-TIME)',
    )
    .option('--resume <directory>', 'checkpoint to continue from; "latest": that of the latest run')
    .option('--no-report', 'write no report.html and trace.json')
    .option('--plain', 'print lines instead of the live block', false)
    .passThroughOptions()
    .action(async (script: string, args: string[], raw: unknown) => {
      const { nproc, runDir, resume, report, plain } = optionsSchema.parse(raw);
      exitCode = await runCommand({
        script,
        args,
        worldSize: nproc,
        runDirectory: runDir,
        resumeDirectory: resume,
        report,
        plain,
      });
    });
  program
    .command('blame')
    .description('compare what the ranks of a failed run called, and name the first that differs')
    .argument('<dumps...>', 'the run directory, its flight folder, or the files in it')
    .option('--json', 'print the verdict as JSON', false)
    .action(async (paths: string[], raw: unknown) => {
      exitCode = await blameCommand(paths, blameOptionsSchema.parse(raw));
    });
  program
    .command('export')
    .description('write the model of a checkpoint to one safetensors file')
    .argument('<checkpoint>', 'a checkpoint, or a run directory, whose latest one is taken')
    .argument('<file>', 'the file to write, such as model.safetensors')
    .action(async (checkpoint: string, file: string) => {
      await exportModel(checkpoint, file);
      process.stdout.write(`Model: ${file}\n`);
    });
  try {
    await program.parseAsync(argv);
    return exitCode;
  } catch (error) {
    if (error instanceof CommanderError) return commanderExit(error);
    if (!ShardwiseError.isInstance(error)) throw error;
    process.stderr.write(`${error.message}\n`);
    return USAGE_EXIT_CODE;
  }
}

function parseRanks(text: string): number {
  const count = Number(text);
  if (/^\d+$/.test(text) && count >= 1) return count;
  throw new InvalidArgumentError('It must be a whole number from 1');
}

/** Help and version have been printed by commander, errors have not. */
function commanderExit({ code, message, exitCode }: CommanderError): number {
  if (exitCode === 0) return 0;
  if (code !== 'commander.help') {
    const found = message.replace(/^error: /, '').replace(/\.$/, '');
    process.stderr.write(`Reading the command line: ${found}. See \`shardwise run --help\`\n`);
  }
  return USAGE_EXIT_CODE;
}

function packageVersion(): string {
  const contents: unknown = createRequire(import.meta.url)('../../package.json');
  return z.object({ version: z.string() }).parse(contents).version;
}
