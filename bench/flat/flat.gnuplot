# SPDX-License-Identifier: MIT
# One dimension of flat.csv as an SVG: measured shares with their quartiles, those of the fastest calls, and the expected ones
# dashed.
# Set by the caller: csv, dimension, isas ("avx2 avx512"), svg.
set terminal svg size 1000,500 font 'sans-serif,14' noenhanced background '#ffffff'
set output svg
set datafile separator ','
set datafile missing NaN # the other dimensions and sets: lines pass over them
set key bottom right
set yrange [0:100]
set ylabel 'share of the FMA peak, %'
set xlabel dimension eq 'dk' || dimension eq 'step' ? 'd_k = d_v' : dimension[1:5] eq 'batch' ? 'batch, n = '.dimension[6:] : dimension
set grid
set bmargin 4
if (dimension ne 'dk' && dimension ne 'step') set logscale x 2
column_of(isa, value) = (strcol(1) eq dimension && strcol(3) eq isa) ? value : NaN
colour(i) = word('#d95f02 #1b6ca8 #4d9221', i)
plot for [i=1:words(isas)] csv using 2:(column_of(word(isas, i), 100*$7)) skip 1 with lines dt 2 lw 2 \
         lc rgb colour(i) title word(isas, i).' expected', \
     for [i=1:words(isas)] csv using 2:(column_of(word(isas, i), 100*$4)) skip 1 with linespoints pt 7 ps 0.4 lw 1.5 \
         lc rgb colour(i) title word(isas, i).' measured', \
     for [i=1:words(isas)] csv using 2:(column_of(word(isas, i), 100*$10)) skip 1 with points pt 2 ps 0.5 \
         lc rgb colour(i) title word(isas, i).' fastest call', \
     for [i=1:words(isas)] csv using 2:(column_of(word(isas, i), 100*$4)):(100*$5):(100*$6) skip 1 with yerrorbars \
         pt 0 lc rgb colour(i) notitle
