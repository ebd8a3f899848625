import { statSync } from 'node:fs';
import { dirname, extname, resolve } from 'node:path';
import type * as Core from '@shardwise/core';
import type { SourcePosition } from './source-position.ts';

/** Returns what to write instead, if it is known. Node's own message does not say it. */
export async function advice(error: Error, position: SourcePosition): Promise<string | undefined> {
  const { message } = error;
  switch ('code' in error ? error.code : undefined) {
    case 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX':
      return 'Node removes types and compiles nothing: with "extends": "shardwise/tsconfig.json", tsc and editors find such code';
    case 'ERR_UNSUPPORTED_DIR_IMPORT':
    case 'ERR_MODULE_NOT_FOUND': {
      const wanted = specifierAt(position);
      if (wanted === undefined) return undefined;
      const [name] = /^(?:@[^/]+\/)?[^/]+/.exec(wanted) ?? [];
      if (!wanted.startsWith('.')) return `Install it: npm install ${name}`;
      const full = completed(wanted, position.path);
      return full === undefined ? undefined : `Write '${full}': Node completes no file names`;
    }
    default: {
      const [, name] = /does not provide an export named '([^']+)'/.exec(message) ?? [];
      if (name === undefined || name === 'default' || !position.path.endsWith('ts'))
        return undefined;
      const isOwn = /from\s*['"](shardwise|@shardwise\/core)['"]/.test(position.text);
      const place = isOwn ? placeOf(name, await import('@shardwise/core')) : undefined;
      return place ?? `If ${name} is a type, write \`import { type ${name} }\``;
    }
  }
}

/** Returns where a name of this library is that its root does not have. */
function placeOf(name: string, core: typeof Core): string | undefined {
  const paths = pathsTo(name, core);
  const [group] = paths[0]?.split('.') ?? [];
  if (group !== undefined) {
    return `It is in a group: write ${paths.join(' or ')}, and import { ${group} }`;
  }
  return name in core.Tensor.prototype ? `It is a method of tensors: x.${name}(…)` : undefined;
}

/** Returns the places of a name in the groups of a module, as `nn.functional.relu`. Groups are modules, too. */
function pathsTo(name: string, module: object): readonly string[] {
  return Object.entries(module).flatMap(([group, value]: readonly [string, unknown]) => {
    if (Object.prototype.toString.call(value) !== '[object Module]') return [];
    const members = Object(value);
    const own = name in members ? [`${group}.${name}`] : [];
    return [...own, ...pathsTo(name, members).map((path) => `${group}.${path}`)];
  });
}

function specifierAt({ text, column }: SourcePosition): string | undefined {
  return /^[^'"]+/.exec(text.slice(column - 1))?.[0];
}

/** Returns the existing file that a specifier without its ending means. TypeScript files take precedence. */
function completed(specifier: string, importer: string): string | undefined {
  const base = specifier.replace(/\/$/, '');
  const stem = base.slice(0, base.length - extname(base).length);
  return ['.ts', '.js', '/index.ts', '/index.js', '.mts', '.mjs']
    .flatMap((ending) => [`${base}${ending}`, `${stem}${ending}`])
    .find((candidate) =>
      statSync(resolve(dirname(importer), candidate), { throwIfNoEntry: false })?.isFile(),
    );
}
