import { registerHooks } from 'node:module';

// Every process and thread of a test preloads this file with --import. Each imports about a thousand modules of this
// repository. Node looks on the disk for each of them and for the package.json above it, which takes a third of the
// time that ranks need to start.

const repository = new URL('../../', import.meta.url).href;
/** The resolved names of workspace packages. They are the same in all sources of the repository. */
const workspacePackages = new Map<string, string>();

/** Removes this file from the stack of an error. A user's script that cannot be loaded prints that stack. */
function withoutThisFile(error: unknown): unknown {
  if (error instanceof Error)
    error.stack = error.stack?.replace(/\n.*\/resolve-sources\.ts:.*$/gm, '') ?? '';
  return error;
}

const hooks: Parameters<typeof registerHooks>[0] = {
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
};

registerHooks(hooks);

/** Whether the hooks have been registered again. */
let areFirst = false;

/**
 * Registers the hooks again, so that they are asked before any that were registered since, which hear of no source then.
 * The second call does nothing.
 */
export function resolveSourcesFirst(): void {
  if (!areFirst) registerHooks(hooks);
  areFirst = true;
}
