import { mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { createProject, UsageError } from '../src/create-project.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'shardwise-create-'));
});

const files = ['.gitignore', 'README.md', 'package.json', 'src', 'test', 'tsconfig.json'];

function nameIn(path: string): unknown {
  const manifest: unknown = JSON.parse(readFileSync(join(path, 'package.json'), 'utf8'));
  return typeof manifest === 'object' && manifest !== null && 'name' in manifest
    ? manifest.name
    : undefined;
}

describe('a project', () => {
  it('is made in a folder that is not there, also below others', () => {
    const path = createProject(join(folder, 'a', 'spirals'));
    expect(path).toBe(join(folder, 'a', 'spirals'));
    expect(readdirSync(path).toSorted()).toEqual(files);
    expect(readFileSync(join(path, 'README.md'), 'utf8')).toMatch(/^# spirals\n/);
  });

  it('is made in an empty folder, and in a repository without files', () => {
    mkdirSync(join(folder, '.git'));
    createProject(folder);
    expect(readdirSync(folder).toSorted()).toEqual(['.git', ...files]);
  });

  it.each([
    ['spirals', 'spirals'],
    ['My Spirals!', 'my-spirals'],
    ['.hidden', 'hidden'],
    ['spirals_2.0', 'spirals_2.0'],
    ['旋', 'training'],
  ])('in the folder %j is called %j, as npm wants it', (place, name) => {
    expect(nameIn(createProject(join(folder, place)))).toBe(name);
  });

  it('is refused where something lies already, which stays as it is', () => {
    for (const name of ['notes.txt', 'b.txt']) writeFileSync(join(folder, name), name);
    expect(() => createProject(folder)).toThrow(UsageError);
    expect(() => createProject(folder)).toThrow(
      /it is not empty \(b\.txt and 1 more\)\. Give the name/,
    );
    expect(readdirSync(folder).toSorted()).toEqual(['b.txt', 'notes.txt']);
  });

  it('is refused where the folder is a file', () => {
    const file = join(folder, 'file');
    writeFileSync(file, '');
    expect(() => createProject(file)).toThrow(/file already exists.*\. Give another folder$/);
  });
});
