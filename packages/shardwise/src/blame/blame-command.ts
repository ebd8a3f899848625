import { describeVerdict } from './describe-verdict.ts';
import { findBlame } from './find-blame.ts';
import { readDumps } from './read-dumps.ts';

/** Runs `shardwise blame` and returns the exit code. Throws DataError if there is no dump to read. */
export async function blameCommand(
  paths: readonly string[],
  options: { readonly json: boolean },
): Promise<number> {
  const { dumps, unreadable } = await readDumps(paths);
  const verdict = findBlame(dumps);
  const lines = options.json
    ? [JSON.stringify({ verdict, ranks: [...dumps.keys()], unreadable }, undefined, 2)]
    : describeVerdict(verdict, unreadable);
  process.stdout.write(`${lines.join('\n')}\n`);
  return dumps.size === 0 ? UNREADABLE_EXIT_CODE : 0;
}

const UNREADABLE_EXIT_CODE = 1;
