import { registerHooks } from 'node:module';

// Preloaded with --import by every process and thread of a test. Each imports about a thousand modules of this repository. Node looks
// for every one of them on the disk and for the package.json above it, which takes a third of the time that ranks need to begin.

const repository = new URL('../../', import.meta.url).href;
/** What the names of workspace packages mean, which is the same in all of their sources. */
const workspacePackages = new Map<string, string>();

/** Users' scripts that cannot be loaded say why in their stack, in which this file has no place. */
function withoutThisFile(error: unknown): unknown {
  if (error instanceof Error)
    error.stack = error.stack?.replace(/\n.*\/resolve-sources\.ts:.*$/gm, '') ?? '';
  return error;
}

registerHooks({
  resolve(specifier, context, nextResolve) {
    const { parentURL = '' } = context;
    const isOurs = parentURL.startsWith(repository) && !parentURL.includes('/node_modules/');
    if (isOurs && specifier.startsWith('.') && specifier.endsWith('.ts')) {
      return {
        url: new URL(specifier, parentURL).href,
        format: 'module-typescript',
        shortCircuit: true,
      };
    }
    const isWorkspacePackage = isOurs && /^(@shardwise\/|shardwise(\/|$))/.test(specifier);
    const known = isWorkspacePackage ? workspacePackages.get(specifier) : undefined;
    if (known !== undefined) return { url: known, shortCircuit: true };
    try {
      const found = nextResolve(specifier, context);
      if (isWorkspacePackage) workspacePackages.set(specifier, found.url);
      return found;
    } catch (error) {
      throw withoutThisFile(error);
    }
  },
});
