import {
  API,
  SymbolFlags,
  type Checker,
  type Project,
  type Symbol,
} from 'typescript/unstable/sync';
import type { Node } from 'typescript/unstable/ast';
import { join, relative } from 'node:path';
import { entryPoints, repository, type EntryPoint } from './packages.ts';

/** Something that an entry point exports, in the form in which its page shows it. */
export interface Entry {
  readonly name: string;
  readonly kind: 'function' | 'class' | 'interface' | 'type' | 'value';
  /** The doc comment as in the source. */
  readonly text: string;
  /** The signatures, one for each overload. */
  readonly signatures: readonly string[];
  readonly members: readonly Member[];
  readonly source: Place;
}

export interface Member {
  readonly name: string;
  readonly text: string;
  readonly signatures: readonly string[];
  /** The class that declares the member: the entry itself, or a class that it extends. */
  readonly declaredBy: string;
  readonly source: Place;
}

/** A line of a file. The path is relative to the repository. */
interface Place {
  readonly path: string;
  readonly line: number;
}

/** The contents of one page: what an entry point exports, or a group of its exports such as `nn` or `nn.functional`. */
export interface Group {
  readonly entryPoint: EntryPoint;
  /** The names by which the group is reached, such as `['nn', 'functional']`. Empty for the entry point itself. */
  readonly path: readonly string[];
  readonly entries: readonly Entry[];
}

/** Reads every entry point with TypeScript's compiler, so that every export has an entry. */
export function readGroups(): readonly Group[] {
  const api = new API({ cwd: repository });
  try {
    const all = entryPoints();
    const configs = [...new Set(all.map(({ folder }) => join(folder, 'tsconfig.json')))];
    const snapshot = api.updateSnapshot({ openProjects: configs });
    return all.flatMap((entryPoint) => {
      const project = snapshot.getProject(join(entryPoint.folder, 'tsconfig.json'));
      if (project === undefined) throw new Error(`${entryPoint.specifier} is in no project`);
      return new DoorReader(entryPoint, project).groups();
    });
  } finally {
    api.close();
  }
}

/** A type parameter of a base class, and the type that a class gives it. */
interface Substitution {
  readonly parameter: string;
  readonly argument: string;
}

class DoorReader {
  readonly #entryPoint: EntryPoint;
  readonly #project: Project;
  readonly #checker: Checker;

  constructor(entryPoint: EntryPoint, project: Project) {
    this.#entryPoint = entryPoint;
    this.#project = project;
    this.#checker = project.checker;
  }

  groups(): readonly Group[] {
    const file = this.#project.program.getSourceFile(this.#entryPoint.file);
    const module = file && this.#checker.getSymbolAtLocation(file);
    if (module === undefined) throw new Error(`${this.#entryPoint.file} exports nothing`);
    return this.#groupsOf(module, []);
  }

  #groupsOf(module: Symbol, path: readonly string[]): readonly Group[] {
    const entries: Entry[] = [];
    const nested: Group[] = [];
    for (const symbol of this.#checker.getExportsOfModule(module)) {
      const target =
        symbol.flags & SymbolFlags.Alias ? this.#checker.getAliasedSymbol(symbol) : symbol;
      const declarations = this.#nodesOf(target);
      const [first] = declarations;
      if (first === undefined)
        throw new Error(`${this.#entryPoint.specifier}: ${symbol.name} is nowhere`);
      const source = placeOf(first);
      // Old names are errors that say the new ones.
      if (source.path.includes('/moved/')) continue;
      if (target.flags & SymbolFlags.ValueModule) {
        nested.push(...this.#groupsOf(target, [...path, symbol.name]));
      } else {
        entries.push(this.#entryOf(symbol.name, target, declarations, source));
      }
    }
    const sorted = entries.toSorted((a, b) => a.name.localeCompare(b.name));
    return [{ entryPoint: this.#entryPoint, path, entries: sorted }, ...nested];
  }

  #nodesOf(symbol: Symbol): readonly Node[] {
    return symbol.declarations.flatMap((handle) => handle.resolve(this.#project) ?? []);
  }

  #entryOf(name: string, symbol: Symbol, declarations: readonly Node[], source: Place): Entry {
    const text = symbol.getDocumentationComment(this.#checker);
    const { flags } = symbol;
    const of = (kind: Entry['kind'], members: readonly Member[] = []): Entry => ({
      name,
      kind,
      text,
      signatures: declarations.map((node) => signatureOf(node, name)),
      members,
      source,
    });
    if (flags & SymbolFlags.Function) return of('function');
    if (flags & SymbolFlags.Class) return of('class', this.#membersOf(symbol));
    if (flags & SymbolFlags.Interface) return of('interface');
    if (flags & SymbolFlags.TypeAlias) return of('type');
    const type = this.#checker.getTypeOfSymbol(symbol);
    const shown = type === undefined ? 'unknown' : this.#checker.typeToString(type);
    return { ...of('value'), signatures: [`const ${name}: ${shown}`] };
  }

  #membersOf(symbol: Symbol): readonly Member[] {
    const instance = this.#checker.getPropertiesOfType(
      this.#checker.getDeclaredTypeOfSymbol(symbol),
    );
    const constructors = symbol.getMembers();
    const own = [...constructors.values()].filter(({ name }) => name === '__constructor');
    const statics = [...symbol.getExports().values()].filter(({ name }) => name !== 'prototype');
    const given = this.#typeArguments(symbol);
    return [
      ...own.map((member) => this.#memberOf(member, '', given)),
      ...statics.map((member) => this.#memberOf(member, 'static ', given)),
      ...instance.map((member) => this.#memberOf(member, '', given)),
    ].filter((member) => member !== undefined);
  }

  /**
   * What the type parameters of a class's base classes stand for, such as `T` for Tensor. Only bases with one parameter
   * are looked at, which gets the name of a class or of another parameter.
   */
  #typeArguments(symbol: Symbol): ReadonlyMap<string, Substitution> {
    const heads = new Map<string, string>();
    const visit = (each: Symbol): void => {
      for (const node of this.#nodesOf(each)) heads.set(each.name, textOf(node).slice(0, 300));
    };
    for (const member of this.#checker.getPropertiesOfType(
      this.#checker.getDeclaredTypeOfSymbol(symbol),
    )) {
      const parent = member.getParent();
      if (parent !== undefined && !heads.has(parent.name)) visit(parent);
    }
    visit(symbol);
    const given = new Map<string, Substitution>();
    const follow = (name: string, own: Substitution | undefined): void => {
      const [, base, argument] = /\bextends (\w+)<(\w+)> \{/.exec(heads.get(name) ?? '') ?? [];
      const parameter = /^[^{]*?class \w+<(\w+)/.exec(heads.get(base ?? '') ?? '')?.[1];
      if (base === undefined || argument === undefined || parameter === undefined) return;
      const next = { parameter, argument: argument === own?.parameter ? own.argument : argument };
      given.set(base, next);
      follow(base, next);
    };
    follow(symbol.name, undefined);
    return given;
  }

  /** Returns undefined for members that users do not see: private ones, and those of other libraries. */
  #memberOf(
    symbol: Symbol,
    prefix: string,
    given: ReadonlyMap<string, Substitution>,
  ): Member | undefined {
    const nodes = this.#nodesOf(symbol).filter((node) =>
      placeOf(node).path.startsWith('packages/'),
    );
    const [first] = nodes;
    if (first === undefined || /^(private|protected|#)/.test(textOf(first))) return undefined;
    if (symbol.name.includes('#') || symbol.name.startsWith('__@')) return undefined;
    const name = symbol.name === '__constructor' ? 'constructor' : symbol.name;
    const declaredBy = symbol.getParent()?.name ?? '';
    const { parameter, argument } = given.get(declaredBy) ?? {};
    return {
      name,
      declaredBy,
      source: placeOf(first),
      text: symbol.getDocumentationComment(this.#checker),
      signatures: nodes.map((node) => {
        const signature = signatureOf(node, name);
        const full = signature.startsWith(prefix) ? signature : prefix + signature;
        return parameter === undefined || argument === undefined
          ? full
          : full.replaceAll(new RegExp(`\\b${parameter}\\b`, 'g'), argument);
      }),
    };
  }
}

/** Returns the source of a node without the comment before it. */
function textOf(node: Node): string {
  const { text } = node.getSourceFile();
  return text.slice(node.getStart(), node.end);
}

function placeOf(node: Node): Place {
  const file = node.getSourceFile();
  const line = file.text.slice(0, node.getStart()).split('\n').length;
  return { path: relative(repository, file.fileName), line };
}

/** Returns a declaration as a caller reads it: without `export`, bodies and initial values. */
function signatureOf(node: Node, name: string): string {
  const file = node.getSourceFile();
  const part = (key: string): Node | undefined => {
    const value: unknown = Reflect.get(node, key);
    return typeof value === 'object' && value !== null && 'pos' in value
      ? (value as Node)
      : undefined;
  };
  const body = part('body');
  const members = Reflect.get(node, 'members') as readonly Node[] | undefined;
  const start = node.getStart();
  const source = file.text;
  let text: string;
  if (/^(export )?(default )?(abstract )?class\b/.test(source.slice(start, start + 40))) {
    const first = members?.[0];
    const head = source.slice(start, first === undefined ? node.end : first.pos);
    text = head.slice(0, head.lastIndexOf('{'));
  } else if (body !== undefined) {
    text = source.slice(start, body.pos);
  } else {
    const type = part('type');
    const initial = part('initializer');
    const end = initial === undefined ? node.end : (type?.end ?? initial.pos - 1);
    text = source.slice(start, end);
  }
  text = text
    .replace(/^export (default )?/, '')
    .replace(/^(override|async) /, '')
    .trim();
  const indent = /\n( +)[^\n]*$/.exec(text)?.[1]?.length ?? 0;
  if (indent > 0 && /\n *[)}\]]/.test(text)) text = outdented(text);
  return text.replace(/\s*=$/, '').replaceAll(new RegExp(`^(constructor|${name})\\(`, 'g'), '$1(');
}

/** Moves a member two blanks to the left, because it is indented in its class. */
function outdented(text: string): string {
  const lines = text.split('\n');
  const last = lines.at(-1) ?? '';
  const indent = last.length - last.trimStart().length;
  return lines
    .map((line, index) => (index === 0 ? line : line.slice(Math.min(indent, line.search(/\S|$/)))))
    .join('\n');
}
