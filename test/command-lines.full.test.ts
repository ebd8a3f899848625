import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { repository } from './support/documents.ts';
import { runCommand, type Ended } from './support/run-command.ts';

function runFile(path: string, ...args: readonly string[]): Promise<Ended> {
  return runCommand('node', [join(repository, path), ...args], { cwd: repository });
}

describe('an example', () => {
  it.each([
    [
      'gpt',
      /^ {2}--strategy +ddp \| zero1 .*\| none \(default: ddp\)$/m,
      /^ {2}--steps +\(default: 600\)$/m,
    ],
    ['zero-redundancy-optimizer', /^ {2}--optimizer +Zero\w+ \| Adam/m, /^ {2}--layers +\(def/m],
  ])('answers --help: %s', async (name, ...lines) => {
    const run = await runFile(`examples/${name}/train.ts`, '--help');
    expect({ exitCode: run.exitCode, stderr: run.stderr }).toEqual({ exitCode: 0, stderr: '' });
    for (const line of lines) expect(run.stdout).toMatch(line);
  });
});

describe('a benchmark', () => {
  it.each([
    [['train', '--frobnicate'], /^Reading the command line: unknown option '--frobnicate'\. The/],
    [['train', '--rounds', 'many'], /^Reading the command line: --rounds is "many"\. Give a whole/],
    [
      ['trian'],
      /^Reading the command line: unknown benchmark 'trian'\. Give one of these:\n {2}tr/,
    ],
    [['collectives', '--world', '1'], /^Reading the command line: --world is '1'\. Give whole/],
  ])('refuses %j as the command line does, exit code 2', async (args, message) => {
    const run = await runFile('bench/run.ts', ...args);
    expect(run.exitCode, run.output).toBe(2);
    expect(run.stderr).toMatch(message);
    expect(run.stderr).not.toMatch(/^ +at /m);
    expect(run.stdout).toBe('');
  });
});
