import { join } from 'node:path';

const folder = join(import.meta.dirname, '..', '..', 'packages', 'shardwise');

/**
 * Whether the packages have been built for this test (test/bundle-packages.ts). Then the command and the programs of
 * tests load the bundles, as those of users do, which takes a third of the time that the sources take. Quick tests need
 * no build, and load the sources.
 */
const isBuilt = process.env['SHARDWISE_BUILT'] === '1';

/** The words that start the `shardwise` command, before its own. */
export const commandWords: readonly string[] = isBuilt
  ? [process.execPath, join(folder, 'bin', 'shardwise.js')]
  : [process.execPath, '--conditions=@shardwise/source', join(folder, 'src', 'cli', 'main.ts')];

/** The variables of the command, and of a program that imports the packages. */
export function commandVariables(): NodeJS.ProcessEnv {
  const { NODE_OPTIONS: _, ...variables } = process.env;
  return isBuilt ? variables : process.env;
}
