import { relative } from 'node:path';
import { parseArgs } from 'node:util';
import { createProject, isTemplate, TEMPLATES, UsageError } from './create-project.ts';
import { packageVersion } from './package-version.ts';

const names = Object.entries(TEMPLATES)
  .map(([name, what]) => `                  ${name.padEnd(10)}  ${what}\n`)
  .join('');

const HELP = `Creates a project that trains a model on several ranks. It downloads nothing.

Usage: npm create shardwise [folder] -- [--template NAME]

  folder          made where it is not there, else it must be empty (default: the current one)
  --template NAME
${names}  -h, --help      print this
  --version       print the version
`;

/** The exit code for a command line that is wrong. */
const USAGE_EXIT_CODE = 2;

/** Runs the command without asking questions, and returns the exit code. `args` are the arguments as typed. */
export function run(args: readonly string[]): number {
  try {
    const { values, positionals } = parse(args);
    if (values.help === true) process.stdout.write(HELP);
    else if (values.version === true) process.stdout.write(`${packageVersion()}\n`);
    else create(positionals, values.template);
    return 0;
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    process.stderr.write(`${error.message}\n`);
    return USAGE_EXIT_CODE;
  }
}

function create([folder = '.', ...others]: readonly string[], template = 'spirals'): void {
  if (others.length > 0) throw usage(`unexpected argument '${others[0]}'`);
  if (!isTemplate(template)) {
    const known = Object.keys(TEMPLATES).join(', ');
    throw usage(`no template '${template}' among ${known}`);
  }
  const path = createProject(folder, template);
  const place = relative(process.cwd(), path);
  const steps = [...(place === '' ? [] : [`cd ${quote(place)}`]), 'npm install', 'npm run train'];
  process.stdout.write(`Created ${path}. Next:\n${steps.map((step) => `  ${step}\n`).join('')}`);
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  if (major > 24 || (major === 24 && minor >= 9)) return;
  process.stdout.write(`It needs Node 24.9 or later; this is ${process.versions.node}.\n`);
}

function quote(word: string): string {
  return /^[\w@%+=:,./\\-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

function parse(args: readonly string[]) {
  const options = {
    help: { type: 'boolean', short: 'h' },
    version: { type: 'boolean' },
    template: { type: 'string' },
  } as const;
  try {
    return parseArgs({ args: [...args], options, allowPositionals: true });
  } catch (error) {
    const [found = ''] = error instanceof Error ? error.message.split('. ') : [];
    throw usage(found.slice(0, 1).toLowerCase() + found.slice(1));
  }
}

function usage(found: string): UsageError {
  return new UsageError(
    `Reading the command line: ${found}. See \`npm create shardwise -- --help\``,
  );
}
