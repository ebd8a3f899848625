import { statSync } from 'node:fs';
import { dirname, extname, resolve } from 'node:path';
import type { SourcePosition } from './source-position.ts';

/** Returns what to write instead, if it is known. Node's own message does not say it. */
export function advice(error: Error, position: SourcePosition): string | undefined {
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
      const type = `If ${name} is a type, write \`import { type ${name} }\``;
      const isOwn = /from\s*['"](shardwise|@shardwise\/core)['"]/.test(position.text);
      return isOwn
        ? `${type}. Layers, optimizers and datasets are in groups: ${inGroups(name)}`
        : type;
    }
  }
}

function inGroups(name: string): string {
  return ['nn', 'optim', 'data'].map((group) => `${group}.${name}`).join(', ');
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
