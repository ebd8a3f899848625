import { registerHooks } from 'node:module';

// Preloaded with --import by every process and thread of a test. Each imports about a thousand modules of this repository. Node looks
// for every one of them on the disk and for the package.json above it, which takes a third of the time that ranks need to begin.

const repository = new URL('../../', import.meta.url).href;
/** What the names of workspace packages mean, which is the same in all of their sources. */
const workspacePackages = new Map<string, string>();

registerHooks({
  resolve(specifier, context, nextResolve) {
    const { parentURL = '' } = context;
    const isOurs = parentURL.startsWith(repository) && !parentURL.includes('/node_modules/');
    if (!isOurs) return nextResolve(specifier, context);
    if (specifier.startsWith('.') && specifier.endsWith('.ts')) {
      return {
        url: new URL(specifier, parentURL).href,
        format: 'module-typescript',
        shortCircuit: true,
      };
    }
    if (!/^(@shardwise\/|shardwise(\/|$))/.test(specifier)) return nextResolve(specifier, context);
    const known = workspacePackages.get(specifier);
    if (known !== undefined) return { url: known, shortCircuit: true };
    const found = nextResolve(specifier, context);
    workspacePackages.set(specifier, found.url);
    return found;
  },
});
