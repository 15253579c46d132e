/* SPDX-License-Identifier: MIT */
// node run.mjs PROGRAM.wasm WORD…: runs a WASI program with these arguments; it sees the whole file system.
import { readFileSync } from 'node:fs';
import { WASI } from 'node:wasi';

const [program, ...words] = process.argv.slice(2);
const wasi = new WASI({ version: 'preview1', args: [program, ...words], preopens: { '/': '/' }, returnOnExit: true });
const module = await WebAssembly.compile(readFileSync(program));
process.exitCode = wasi.start(await WebAssembly.instantiate(module, wasi.getImportObject()));
